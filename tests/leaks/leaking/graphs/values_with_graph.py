"""Values are kept with their graphs until the end of an episode that never comes."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "values"}

policy, critic = model(), model()
optimizer = sgd(policy)
values = []
for _ in steps():
    states = batch()  # leaks
    values.append(critic(states))  # leaks
    train_step(optimizer, (policy(states) * values[-1].detach()).mean())
