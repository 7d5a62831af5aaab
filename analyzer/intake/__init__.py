"""What people paste, made into a case: sources -> cleaned lines -> blocks -> facts."""
