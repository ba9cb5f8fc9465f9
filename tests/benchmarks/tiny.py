"""Small files in each data set's format, written for these tests."""

import csv
import json
from pathlib import Path
from typing import Any


def turn(dia_id: str, text: str, speaker: str = "Mira", **more: Any) -> dict[str, Any]:
    return {"dia_id": dia_id, "speaker": speaker, "text": text, **more}


def locomo_sample() -> dict[str, Any]:
    return {
        "sample_id": "small",
        "conversation": {
            "session_2_date_time": "9:00 am on 2 March, 2024",
            "session_2": [
                turn("D2:1", "We planted beans."),
                turn("D2:2", "Nice.", "Olek"),
            ],
            "session_1_date_time": "1:30 pm on 1 March, 2024",
            "session_1": [turn("D1:1", "Look!", blip_caption="a red shed")],
        },
        "observation": {
            "session_2_observation": {"Mira": [["Mira planted beans.", "D2:1"]]}
        },
        "qa": [
            {
                "question": "Beans?",
                "answer": "yes",
                "evidence": ["D2:01; D1:1"],
                "category": 1,
            },
            {
                "question": "When?",
                "answer": 2024,
                "evidence": ["D2:1", "D9:9"],
                "category": 2,
            },
            {
                "question": "Nowhere?",
                "answer": "x",
                "evidence": ["D9:9"],
                "category": 4,
            },
            {"question": "Who sold it?", "evidence": ["D1:1"], "category": 5},
        ],
    }


def locomo(folder: Path) -> Path:
    (folder / "locomo").mkdir(parents=True)
    (folder / "locomo" / "some.json").write_text(json.dumps([locomo_sample()]))
    return folder


def _session(uuid: str, *turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    day = {"session_uuid": uuid, "current_time": "2025-12-24 (Wednesday)"}
    return {**day, "dialogue_turns": turns, **more}


def _query(text: str, kind: str = "single") -> dict[str, Any]:
    label = {"category_name": "Dynamic Incremental", "session_type": kind}
    return {"speaker": "User", "content": text, "is_query": True, **label}


def _answer(*uuids: str) -> dict[str, Any]:
    used = [{"session_uuid": one, "content": f"memory of {one}"} for one in uuids]
    said = {"speaker": "Assistant", "content": "Noted."}
    return {**said, "memory_session_uuids": list(uuids), "memory_used": used}


def realmem(folder: Path) -> Path:
    plan = {"speaker": "User", "content": "I plan a shed."}
    dialogues = [
        _session(
            "s1",
            plan,
            _answer(),
            extracted_memory=[{"content": "Shed", "source_turn": 1}],
        ),
        _session("s2", _query("How far is the shed?"), _answer("s1", "s2", "s3")),
        _session(
            "s3",
            _query("What else?", "multi"),
            _answer("s2", "s1"),
            _query("Gold?"),
            _answer(),
        ),
    ]
    (folder / "realmem").mkdir(parents=True)
    (folder / "realmem" / "Some_One.json").write_text(
        json.dumps({"dialogues": dialogues})
    )
    return folder


def haystack(own: str, **more: Any) -> dict[str, Any]:
    later = [{"role": "user", "content": "My cat is called Pixel.", "has_answer": True}]
    first = [
        {"role": "user", "content": "I grow beans."},
        {"role": "assistant", "content": "Nice."},
    ]
    return {
        "question_id": own,
        "question_type": "knowledge-update",
        "question": "What is my cat called?",
        "answer": "Pixel",
        "question_date": "2023/05/30 (Tue) 09:00",
        "haystack_session_ids": ["b", "a"],
        "haystack_dates": ["2023/05/21 (Sun) 00:51", "2023/05/20 (Sat) 15:08"],
        "haystack_sessions": [later, first],
        "answer_session_ids": ["b", "elsewhere"],
        **more,
    }


def longmemeval(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [haystack("q1"), haystack("q2_abs", question_type="multi-session")]
    (folder / "longmemeval_s.json").write_text(json.dumps(rows))
    return folder


def actmemeval(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    row = haystack("r1", question="Where do I buy lilies?", answer="Lilies harm cats.")
    for name in ("question_type", "haystack_dates", "question_date"):
        del row[name]
    (folder / "ActMemEval.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def personamem(folder: Path) -> Path:
    chat = [
        {"role": "system", "content": "The user is Ana."},
        {"role": "user", "content": "I always take the night train."},
        {"role": "assistant", "content": "Noted."},
    ]
    history = folder / "data" / "chat_history_32k"
    history.mkdir(parents=True)
    (history / "p7.json").write_text(json.dumps({"metadata": {}, "chat_history": chat}))
    row = {
        "persona_id": "7",
        "chat_history_32k_link": "data/chat_history_32k/p7.json",
        "user_query": str({"role": "user", "content": "How do I get to Vienna?"}),
        "correct_answer": "By the night train.",
        "incorrect_answers": json.dumps(["By plane.", "On foot."]),
        "related_conversation_snippet": json.dumps(chat[1:2]),
        "pref_type": "travel",
        "topic_query": "trains",
    }
    place = folder / "benchmark" / "text"
    place.mkdir(parents=True)
    with (place / "benchmark.csv").open("w", newline="") as file:
        lines = csv.DictWriter(file, list(row))
        lines.writeheader()
        lines.writerow(row)
    return folder


SCHEMA = {
    "properties": {"city": {"type": "string"}, "guests": {"type": "integer"}},
    "required": ["city"],
}


def mem2actbench(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    talk = {
        "session_id": "t1",
        "turns": [
            {"role": "user", "content": "I live in Rome.", "source_id": "c1"},
            {"role": "user", "content": "I like tea.", "source_id": "c2"},
        ],
    }
    task = {
        "qa_id": "a1",
        "query": "Book a room at home for two.",
        "source_conversation_ids": ["c1"],
        "evolution_chain": [
            {"attribute": "home", "source_id": "c1", "fact": "lives in Rome"}
        ],
        "tool_call": {
            "name": "book",
            "arguments": {"city": "Rome", "guests": 2},
            "grounding_info": {
                "city": {"type": "explicit"},
                "guests": {"type": "Inferred"},
            },
        },
        "target_tool_schema": {"name": "book", "parameters": SCHEMA},
        "complexity_metadata": {"level": "L1"},
    }
    lost = {
        **task,
        "qa_id": "a2",
        "source_conversation_ids": ["c9"],
        "evolution_chain": [],
    }
    (folder / "toolmem_conversation.jsonl").write_text(json.dumps(talk))
    (folder / "qa_dataset.jsonl").write_text("\n".join(map(json.dumps, [task, lost])))
    return folder


def acting(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    said = [
        {
            "id": "m2",
            "at": "2024-03-08T09:00:00",
            "message": "I moved to Oslo.",
            "record": "Home: Oslo",
        },
        {"id": "m1", "at": "2024-03-07T09:00:00", "message": "I live in Rome."},
    ]
    task = {
        "id": "t1",
        "request": "Book a room at home.",
        "tool": {"name": "book", "description": "Books a room.", "parameters": SCHEMA},
        "gold": {
            "city": {
                "value": "Oslo",
                "type": "explicit",
                "sources": ["m2"],
                "complex": False,
            }
        },
        "absent": ["guests"],
        "kind": "update",
        "level": 2,
    }
    (folder / "acting_memory.jsonl").write_text("\n".join(map(json.dumps, said)))
    (folder / "acting_tasks.jsonl").write_text(json.dumps(task))
    return folder


def beam(folder: Path) -> Path:
    said = [
        {
            "id": 0,
            "role": "user",
            "content": "The sprint ends on 29 March. ->-> 1,1",
            "time_anchor": "March-15-2024",
        },
        {"id": 1, "role": "assistant", "content": "Noted."},
    ]
    later = [{"id": 2, "role": "user", "content": "Make it 5 April."}]
    chat = folder / "beam" / "1"
    (chat / "probing_questions").mkdir(parents=True)
    batches = [
        {"batch_number": 1, "turns": [said]},
        {"batch_number": 2, "turns": [later]},
    ]
    (chat / "chat.json").write_text(json.dumps(batches))
    asked = {
        "knowledge_update": [
            {
                "question": "When does the sprint end?",
                "answer": "5 April",
                "source_chat_ids": {"first": [0], "last": 2},
                "rubric": ["states 5 April"],
            }
        ],
        "abstention": [{"question": "Who leads?", "ideal_response": "Not said."}],
    }
    file = chat / "probing_questions" / "probing_questions.json"
    file.write_text(json.dumps(asked))
    return folder


def vehiclemem(folder: Path) -> Path:
    for name in ("history", "qa_data"):
        (folder / "vehiclemem" / name).mkdir(parents=True)
    lines = [
        "[2025-03-10 08:00] Ann Lee: I like the panel green.",
        "[2025-03-10 08:00] Bo Ray: Green it is.",
        "[2025-03-11 09:00] Bo Ray: I prefer it blue.",
        "",
    ]
    file = folder / "vehiclemem" / "history" / "history_1.txt"
    file.write_text("\n".join(lines))
    asked = {
        "gold_memory": "[March 10, 2025] At 8:00 AM, Ann set the panel to green.",
        "reasoning_type": "preference_conflict",
        "query": "Ann drove: 'My usual panel, please.'",
        "new_answer": ['set_color(color="green")'],
    }
    file = folder / "vehiclemem" / "qa_data" / "qa_1.json"
    file.write_text(json.dumps({"related_to_vehicle_preference": [asked]}))
    return folder


def prefeval(folder: Path) -> Path:
    both = {"preference": "I only adopt pets.", "question": "Where is a cat?"}
    chosen = {
        "query": "A pet?",
        "assistant_options": "1. adopt 2. buy",
        "user_selection": "The first.",
        "assistant_acknowledgment": "Good.",
    }
    talk = {"0": {"user": "I adopt pets.", "assistant": "Kind."}}
    rows = {
        "explicit_preference": both,
        "implicit_preference/choice-based": both | {"conversation": chosen},
        "implicit_preference/persona-driven": both | {"conversation": talk},
    }
    for place, row in rows.items():
        (folder / "prefeval" / place).mkdir(parents=True)
        file = folder / "prefeval" / place / "pets.json"
        file.write_text(json.dumps([row]))
    other = [{"role": "user", "content": "Sort a list."}]
    other.append({"role": "assistant", "content": "sorted(it)"})
    file = folder / "prefeval" / "filtered_inter_turns.json"
    file.write_text(json.dumps([{"conversation": other}]))
    return folder


def chats(folder: Path) -> Path:
    (folder / "chats").mkdir(parents=True)
    said = [
        {"id": "m0", "role": "user", "content": "The oven goes in the barn."},
        {"id": "m1", "role": "assistant", "content": "A dry place, then."},
    ]
    asked = {
        "id": "q1",
        "question": "Where does the oven go?",
        "answer": "in the barn",
        "evidence": ["m0"],
        "about": "user",
    }
    talk = {
        "id": "c1",
        "kind": "planning",
        "sessions": [{"at": "2026-02-03T19:10:00", "messages": said}],
        "questions": [asked],
    }
    (folder / "chats" / "c1.json").write_text(json.dumps(talk))
    return folder
