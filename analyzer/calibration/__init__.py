"""How often the rules are right: labelled cases analyzed, counted, and the words fitted to what was seen."""
