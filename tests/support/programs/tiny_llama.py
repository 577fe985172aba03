"""Write a tiny random Llama, its tokenizer and a few texts: `tiny_llama.py FOLDER`."""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder = Path(sys.argv[1])
special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
words = [*special.values(), *(f"w{number}" for number in range(61))]
vocabulary = {word: place for place, word in enumerate(words)}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special["unk_token"]))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
special["pad_token"] = special["eos_token"]
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder / "model")
LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=1,
        eos_token_id=2,
    )
).save_pretrained(folder / "model")
(folder / "data").mkdir()
texts = [" ".join(f"w{(start + place) % 61}" for place in range(40)) for start in range(64)]
lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
(folder / "data" / "train.jsonl").write_text(lines)
