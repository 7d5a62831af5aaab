"""Commands of the front door itself: they need neither the collector nor the analyzer."""
