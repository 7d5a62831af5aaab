"""One disposable child per probe: forked, listened to, killed or abandoned, written into the ledger."""
