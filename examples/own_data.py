"""Arrays of your own, split as you like; stop early, save the model, and load it in plain torch."""

import safetensors.torch
import torch
from sklearn.datasets import load_digits
from torch import nn

import fedrepro

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32").reshape(-1, 8, 8)  # (N, H, W), or (N, C, H, W) for colours
x, y, x_test, y_test = images[:1400], labels[:1400], images[1400:], labels[1400:]
clients = [range(start, start + 140) for start in range(0, 1400, 140)]  # the numbers of each client's images


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


result = fedrepro.simulate(
    (x, y, x_test, y_test),
    partition=clients,
    model=network,
    rounds=50,
    lr=0.5,
    on_round=lambda run, row: row["test_accuracy"] > 0.9,  # True stops
)
result.save("results/digits")
print(result.clients[["client", "images", "weight", "accuracy"]])

plain = network()
plain.load_state_dict(safetensors.torch.load_file("results/digits/model-0.safetensors"))
accuracy = (plain(torch.tensor(x_test)).argmax(1).numpy() == y_test).mean()
print(f"{accuracy:.3f} after {len(result.log) - 1} rounds")
assert accuracy == result.log["test_accuracy"].iloc[-1]
