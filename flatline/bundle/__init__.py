"""The bundle: its vocabulary (facts), its format, its writer, its reader and its salvage."""
