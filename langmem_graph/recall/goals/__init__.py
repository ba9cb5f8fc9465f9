"""Goal-Mem's backward chaining: init, retrieve, unify, refine, until proved or out of budget."""
