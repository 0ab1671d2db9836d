"""The wheel's own episode loop with a scripted model: what a model would have been told at each query.

Runs in the oracle's environment (`oracle_server.py` imports it after its stubs). Upstream's OpenAI handler plays, in
prompting or in function-calling mode; only its two methods that ask the endpoint are replaced.
"""

import copy
import types
from typing import Any

from bfcl_eval._llm_response_generation import process_multi_turn_test_case
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
from bfcl_eval.model_handler.model_style import ModelStyle


class ScriptedHandler(OpenAICompletionsHandler):
    """Answers with the script's responses in order, then with empty text; keeps what it was asked."""

    def __init__(self, native: bool, script: list[Any], model: str) -> None:
        self.model_name = self.model_name_underline_replaced = model
        self.model_style = ModelStyle.OpenAI_Completions
        self.is_fc_model, self.temperature = native, 0.0
        self._script = iter(script)
        self.asked: list[dict[str, Any]] = []

    def _query_FC(self, inference_data: dict[str, Any]) -> Any:  # noqa: N802 - upstream's name
        self._keep(inference_data["message"], inference_data["tools"])
        return self._answer()

    def _query_prompting(self, inference_data: dict[str, Any]) -> Any:
        self._keep(inference_data["message"], [])
        return self._answer()

    def _keep(self, messages: list[Any], tools: list[Any]) -> None:
        said = [vars(message) if isinstance(message, types.SimpleNamespace) else message for message in messages]
        plain = [
            {key: message[key] for key in ("role", "content", "tool_call_id") if key in message} for message in said
        ]
        self.asked.append(copy.deepcopy({"messages": plain, "tools": [tool["function"] for tool in tools]}))

    def _answer(self) -> Any:
        response = next(self._script, "")
        calls = None
        if isinstance(response, list):
            pairs = [pair for call in response for pair in call.items()]
            calls = [
                types.SimpleNamespace(
                    id=f"call_{index}", function=types.SimpleNamespace(name=name, arguments=arguments)
                )
                for index, (name, arguments) in enumerate(pairs)
            ]
        content = "" if isinstance(response, list) else response
        message = types.SimpleNamespace(role="assistant", content=content, tool_calls=calls)
        usage = types.SimpleNamespace(prompt_tokens=0, completion_tokens=0)
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)], usage=usage), 0.0


def play(entry: dict[str, Any], native: bool, script: list[Any], model: str) -> dict[str, Any]:
    """`asked`: messages and tools at each query; `result`: what upstream would keep in its result file."""
    (entry,) = process_multi_turn_test_case([copy.deepcopy(entry)])
    handler = ScriptedHandler(native, script, model)
    result, _ = handler.inference(copy.deepcopy(entry), include_input_log=False, exclude_state_log=True)
    return {"asked": handler.asked, "result": result}
