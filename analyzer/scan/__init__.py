"""Finding the lines of large texts in which patterns are found."""
