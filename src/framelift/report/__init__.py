"""What `explain` found, for people: on a terminal, and as a page.

Everything here is made from the plain data of `Explanation.to_dict()`, so that a report can be made of a file
of it too, and knows nothing of torch.
"""
