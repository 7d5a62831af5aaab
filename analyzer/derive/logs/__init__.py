"""What a log says: its signs, its progress bars, its collectives and ranks. Bundles' logs and pasted ones alike."""
