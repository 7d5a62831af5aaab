"""Everything that knows Linux: /proc, sock_diag, namespaces. No other module of the collector does."""
