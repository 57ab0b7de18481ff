"""What a service keeps in the run store beside runs and work: tokens, the log of acts, what tenants have used, which
processes are there and who leads, who asks for peace, and what the scheduler knows of tables."""
