"""The reasoning graph: backward chaining (Goal-Mem) and counterfactual refinement
(ActMem).
"""
