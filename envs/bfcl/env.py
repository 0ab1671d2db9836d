"""BFCL-v3's episodes: one step for single-turn tasks, turns of steps for multi-turn ones (spec A2).

A multi-turn turn goes on while the answers hold calls that can be decoded; one without ends it, and the next user
message follows whatever happened. In a reveal turn the functions that were held out join the tools (`fc`) or come as
text (`prompt`). The 21st tool-executing step of a turn truncates the episode with the limit `force_quit`, and the
turns so far are graded, as upstream does. Rewards come from replaying the recorded calls, not from the live state.

Known differences: results go back the way upstream's API handlers send them (one `tool` message a call, or one user
message in prompt mode), not the way its local-model handlers do. Limits that upstream lacks (`max_steps`, time) grade
the turns so far in the same way. In `prompt` mode native tool calls are ignored and recorded as not executed.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.base import GRADERS, Answer, EnvSettings, HarnessEnv, Opening
from envs.bfcl import calls as call_records
from envs.bfcl import prompts, reference, schemas, tasks
from envs.bfcl.decode import DecodeError
from envs.bfcl.grading import decode_single, decode_step, raw_step, verdict
from envs.bfcl.simulators import Simulation
from envs.bfcl.strict import attempts_call
from trajectories.schema import Action, CallRecord, Message, Task, ToolCall, ToolSpec, Verdict

MAX_TOOL_STEPS = 20
"""A turn with more tool-executing steps than this forces the episode to quit."""


class BFCLEnv(HarnessEnv):
    """One episode of one BFCL-v3 task; see the module."""

    def __init__(self, task: str | None = None, settings: EnvSettings | None = None) -> None:
        self._asked = settings or EnvSettings()
        super().__init__(task, self._asked)

    def _load(self, task_id: str) -> Task:
        self._row, split, self._data_version = tasks.find(task_id)
        self.settings = tasks.resolve(self._asked, split)
        self._texts = tasks.texts_of(self.settings)
        return tasks.task_of(self._row, split)

    def _open(self, rng: random.Random) -> Opening:
        row = self._row
        self._turn = self._tool_steps = 0
        self._played: list[tuple[int, Any]] = []
        self._verdicts: dict[str, Verdict] | None = None
        self._simulation = Simulation(row) if row.multi_turn else None
        held_out = {name for names in row.held_out.values() for name in names}
        self._docs = self._annotated([doc for doc in row.functions if doc["name"] not in held_out])
        tools = self._native_tools() if self.settings.mode == "fc" else ()
        return Opening(self._first_messages(), tools)

    def _answer(self, action: Action) -> Answer:
        self._verdicts = None
        raw = raw_step(action, self.settings.mode)
        self._played.append((self._turn, raw))
        if self._simulation is None:
            return self._single_turn(action, raw)
        texts = decode_step(raw, native=self.settings.mode == "fc")
        if isinstance(texts, DecodeError) or not texts:
            return self._end_turn(action, texts)
        return self._run(action, texts, self._simulation)

    def verdicts(self) -> dict[str, Verdict]:
        if self._verdicts is None:
            output = tasks.raw_output(self._row, self._played, self.settings.mode)
            self._verdicts = {grader: verdict(self._row, output, grader, self._data_version) for grader in GRADERS}
        return dict(self._verdicts)

    def reference_actions(self) -> tuple[Action, ...]:
        row = self._row
        if row.multi_turn:
            turns = [reference.turn_calls(row, turn) for turn in (row.ground_truth or ())[: len(row.question)]]
            return tuple(action for turn in turns for action in self._turn_actions(turn))
        if row.category.endswith("irrelevance"):
            return (Action(content=reference.REFUSAL),)
        return (self._call_action([reference.some_call(row)] if row.ground_truth is None else reference.calls(row)),)

    def state_digest(self) -> str | None:
        return self._simulation.state_digest() if self._simulation else None

    def _single_turn(self, action: Action, raw: Any) -> Answer:
        mode = self.settings.mode
        decoded = decode_single(raw, self._row.language, native=mode == "fc")
        records = call_records.graded(call_records.emitted(action, mode, self._row.language), self._row, mode)
        return Answer((), True, None, (*records, *self._ignored(action)), self._parse_error(action, decoded), 0)

    def _run(self, action: Action, texts: Sequence[str], simulation: Simulation) -> Answer:
        """Execute the step's calls; the turn goes on, unless it has had too many such steps."""
        results = simulation.execute(texts)
        records = call_records.executed(call_records.emitted(action, self.settings.mode), results)
        self._tool_steps += 1
        limit = "force_quit" if self._tool_steps > MAX_TOOL_STEPS else None
        messages = self._results(action, texts, [result.text for result in results])
        return Answer(messages, False, limit, (*records, *self._ignored(action)), None, self._turn)

    def _end_turn(self, action: Action, texts: Sequence[str] | DecodeError) -> Answer:
        """The answer held no call that can be run: on to the next user message, or the end."""
        turn = self._turn
        ignored = call_records.ignored(call_records.native(action))
        ended = turn + 1 == len(self._row.question)
        messages = () if ended else self._next_turn()
        return Answer(messages, ended, None, tuple(ignored), self._parse_error(action, texts), turn)

    def _next_turn(self) -> tuple[Message, ...]:
        self._turn, self._tool_steps = self._turn + 1, 0
        if self._turn not in self._row.held_out:
            return _messages(self._row.question[self._turn])
        by_name = {doc["name"]: doc for doc in self._row.functions}
        revealed = [by_name[name] for name in self._row.held_out[self._turn]]
        if self.settings.mode == "prompt":
            return (Message(role="user", content=prompts.reveal_message(self._texts, revealed)),)
        # Upstream annotates the documents that the model has had all along a second time; so do its texts here.
        old = self._annotated(self._docs) if self.settings.texts == "official" else self._docs
        self._docs = [*old, *self._annotated(revealed)]
        self.tools = self._native_tools()
        return (Message(role="user", content=self._texts.reveal),)

    def _first_messages(self) -> tuple[Message, ...]:
        messages = _messages(self._row.question[0])
        if self.settings.mode == "fc":
            return messages
        system = prompts.system_prompt(self._texts, self._docs)
        if messages and messages[0].role == "system":
            return (Message(role="system", content=f"{system}\n\n{messages[0].content}"), *messages[1:])
        return (Message(role="system", content=system), *messages)

    def _results(self, action: Action, texts: Sequence[str], results: Sequence[str]) -> tuple[Message, ...]:
        if self.settings.mode == "fc":
            pairs = zip(action.tool_calls, results, strict=True)
            return tuple(
                Message(role="tool", content=result, tool_call_id=call.id, name=call.name) for call, result in pairs
            )
        rows = [{"role": "tool", "name": text, "content": result} for text, result in zip(texts, results, strict=True)]
        return (Message(role="user", content=repr(rows)),)

    def _annotated(self, docs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return schemas.annotated(docs, self._row.language, self._texts)

    def _native_tools(self) -> tuple[ToolSpec, ...]:
        return tuple(schemas.native_tool(doc, self._texts) for doc in self._docs)

    def _ignored(self, action: Action) -> list[CallRecord]:
        return call_records.ignored(call_records.native(action)) if self.settings.mode == "prompt" else []

    def _parse_error(self, action: Action, decoded: Any) -> str | None:
        if not isinstance(decoded, DecodeError):
            return None
        if self.settings.mode == "fc" and action.tool_calls:
            return str(decoded)
        return str(decoded) if attempts_call(action.content) else None

    def _turn_actions(self, calls: list[reference.Call]) -> list[Action]:
        """One step with all calls of the turn, if it has any, and the answer that ends it."""
        return [*([self._call_action(calls)] if calls else []), Action(content="Done.")]

    def _call_action(self, calls: list[reference.Call]) -> Action:
        if self.settings.mode == "prompt":
            return Action(content=reference.text(self._row, calls))
        pairs = [pair for call in calls for pair in call.items()]
        return Action(
            tool_calls=tuple(
                ToolCall(id=f"call_{index}", name=schemas.tool_name(name), arguments=arguments)
                for index, (name, arguments) in enumerate(pairs)
            )
        )


def _messages(turn: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(Message(role=message["role"], content=message["content"]) for message in turn)
