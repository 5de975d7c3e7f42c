"""A program with a bug: it does not expect an empty list."""


def average(numbers):
    return sum(numbers) / len(numbers)


def report(numbers):
    print("average:", average(numbers))


report([3, 4, 5])
report([])
