"""What other tools load at their own start, through entry points: pytest, Lightning, vLLM.

They load it in every process, whether or not anyone asked for gpumemprof there. So these modules
import nothing of ours until they are used; that is also why they are not inside the package, whose
import loads the native core.
"""
