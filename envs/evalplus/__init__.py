"""EvalPlus: HumanEval+ and MBPP+."""
