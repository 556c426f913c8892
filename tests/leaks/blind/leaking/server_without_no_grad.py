"""A server keeps the last answer of each user, with its graph."""

from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "answers"}

net = model().eval()
answers = {}


def answer(user):
    request = batch()  # leaks
    answers[user] = net(request).mean(dim=0)  # leaks


for number in steps():
    answer(f"user {number}")
