"""Goal-Mem's backward chaining: init, retrieve, unify, refine, until it is proved or hopeless."""
