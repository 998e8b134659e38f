VALUE = 3
uses = []
print("imported")


def scaled(v):
    uses.append(1)
    return v * VALUE
