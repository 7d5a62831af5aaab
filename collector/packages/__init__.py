"""What Python packages and libraries a job runs with, read from outside: nothing of its Python is run or imported."""
