"""for and while loops, with break, continue and else."""

from programs import error_of


def for_with_else():
    def find(items, wanted):
        for i, x in enumerate(items):
            if x == wanted:
                break
        else:
            return "not found"
        return i

    return find("abc", "b"), find("abc", "z"), find("", "a")


def while_with_else():
    def count(n, stop):
        while n > 0:
            n -= 1
            if n == stop:
                break
        else:
            return "ran out"
        return n

    return count(5, 2), count(5, 9), count(0, 0)


def while_true_with_several_exits():
    def collatz(n):
        steps = []
        while True:
            steps.append(n)
            if n == 1:
                return steps
            if len(steps) > 10:
                break
            if n % 2:
                n = 3 * n + 1
                continue
            n //= 2
        return "too long"

    return collatz(6), collatz(27)


def conditions_that_are_none():
    log = []
    items = [1, None, 2]
    x = items.pop()
    while x is not None:
        log.append(x)
        x = items.pop()
    while x is None:
        x = items.pop()
    node = (1, (2, (3, None)))
    while node is not None:
        value, node = node
        log.append(value)
    while True:
        if node is None:
            break
    return log, x


def backward_jumps_on_every_condition():
    log = []
    n, flag, item = 3, False, "start"
    while not flag:
        n -= 1
        flag = n == 0
    while n < 3:
        n += 1
    while item is not None:
        log.append(item)
        item = None
    count = 0
    while item is None:
        count += 1
        if count > 2:
            item = "set"
    while count > 0 and n or flag and count > -2:
        count -= 1
    return log, n, count, item


def nested_loops_with_break_and_continue():
    log = []
    for i in range(4):
        if i == 2:
            continue
        for j in range(4):
            if j == i:
                continue
            if j > 2:
                break
            log.append((i, j))
        else:
            log.append("inner complete")
    return log


def the_loop_variable_survives_the_loop():
    for i in range(3):
        pass
    for j in []:
        pass
    return i, error_of(lambda: j)


def assigning_to_the_loop_variable_does_not_change_the_loop():
    seen = []
    for i in range(3):
        seen.append(i)
        i = 100
        seen.append(i)
    return seen


def loop_targets_of_every_kind():
    class Box:
        pass

    box, items, log = Box(), {}, []
    for box.x in range(2):
        log.append(box.x)
    for items["k"] in "ab":
        log.append(dict(items))
    for a, (b, *c) in [(1, (2, 3, 4)), (5, "678")]:
        log.append((a, b, c))
    for [x, y] in {"k1": 1}.items():
        log.append((x, y))
    return log


def mutating_a_list_while_looping():
    items = [1, 2, 3, 4]
    for x in items:
        if x % 2 == 0:
            items.remove(x)
    growing = [1]
    for x in growing:
        if x < 5:
            growing.append(x + 1)
    return items, growing


def mutating_a_dict_while_looping():
    d = {1: 1, 2: 2}
    for k in d:
        d[k + 10] = 0


def looping_over_a_changing_set():
    s = {1, 2, 3}

    def grow():
        for x in s:
            s.add(x + 100)

    return error_of(grow)


def an_exception_in_next_ends_the_loop():
    class Fails:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n == 3:
                raise RuntimeError("no more")
            return self.n

    seen = []
    try:
        for x in Fails():
            seen.append(x)
    except RuntimeError as e:
        seen.append(str(e))
    return seen


def stop_iteration_in_the_body_is_not_the_end_of_the_loop():
    def f():
        for _ in range(3):
            next(iter([]))
        return "never"

    return error_of(f)


def enumerate_zip_reversed_and_friends():
    log = []
    for i, (a, b) in enumerate(zip("abc", reversed([1, 2, 3])), start=10):
        log.append((i, a, b))
    for k, v in sorted({"z": 1, "y": 2}.items()):
        log.append(k + str(v))
    for x in iter([3, 2, 0, 1].pop, 0):
        log.append(x)
    return log


def a_loop_over_a_range_with_every_sign():
    return [[i for i in range(*a)] for a in ((3,), (1, 4), (0, 10, 3), (5, 0, -2), (0, 5, -1), (-3, 0))]


def a_loop_with_a_long_body():
    source = "def f(n):\n    t = 0\n    for i in range(n):\n        if i % 7 == 3: continue\n"
    source += "".join(f"        t += i * {k} + {k + 1000}\n" for k in range(300))
    source += "    return t\n"
    namespace = {}
    exec(source, namespace)
    return namespace["f"](0), namespace["f"](10)


def while_with_a_walrus():
    chunks = iter(["ab", "cd", "", "ef"])
    read = []
    while chunk := next(chunks):
        read.append(chunk)
    return read, next(chunks)


def bubble_sort_and_binary_search():
    def bubble(items):
        items = list(items)
        for end in range(len(items) - 1, 0, -1):
            swapped = False
            for i in range(end):
                if items[i] > items[i + 1]:
                    items[i], items[i + 1] = items[i + 1], items[i]
                    swapped = True
            if not swapped:
                break
        return items

    def search(items, x):
        low, high = 0, len(items)
        while low < high:
            middle = (low + high) // 2
            if items[middle] < x:
                low = middle + 1
            elif items[middle] > x:
                high = middle
            else:
                return middle
        return ~low

    items = bubble([5, 2, 9, 1, 7])
    return items, [search(items, x) for x in (1, 7, 4, 10)]


def greatest_common_divisor_primes_and_perfect_numbers():
    def gcd(a, b):
        while b:
            a, b = b, a % b
        return a

    primes = []
    candidate = 2
    while len(primes) < 10:
        for p in primes:
            if candidate % p == 0:
                break
        else:
            primes.append(candidate)
        candidate += 1
    perfect = [n for n in range(2, 500) if sum(d for d in range(1, n) if n % d == 0) == n]
    return gcd(48, 36), gcd(17, 5), primes, perfect


def dijkstra_on_a_small_graph():
    import heapq

    graph = {"a": {"b": 7, "c": 3}, "b": {"d": 2}, "c": {"b": 1, "d": 8}, "d": {}, "e": {"a": 1}}

    def shortest(start):
        distance, previous, queue = {start: 0}, {}, [(0, start)]
        while queue:
            d, node = heapq.heappop(queue)
            if d > distance[node]:
                continue
            for neighbour, cost in graph[node].items():
                if (new := d + cost) < distance.get(neighbour, float("inf")):
                    distance[neighbour] = new
                    previous[neighbour] = node
                    heapq.heappush(queue, (new, neighbour))
        return distance, previous

    return shortest("a"), shortest("e"), shortest("d")


def spiral_order_of_a_matrix():
    def spiral(matrix):
        out = []
        while matrix:
            out.extend(matrix[0])
            matrix = [list(row) for row in zip(*matrix[1:])][::-1]
        return out

    return spiral([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), spiral([[1, 2], [3, 4], [5, 6]]), spiral([])


def run_length_encoding_and_back():
    def encode(text):
        out = []
        i = 0
        while i < len(text):
            j = i
            while j < len(text) and text[j] == text[i]:
                j += 1
            out.append(f"{j - i}{text[i]}" if j - i > 1 else text[i])
            i = j
        return "".join(out)

    def decode(text):
        out, count = "", ""
        for c in text:
            if c.isdigit():
                count += c
                continue
            out += c * int(count or 1)
            count = ""
        return out

    words = ["aaabccd", "", "xyz", "z" * 12]
    return [encode(w) for w in words], [decode(encode(w)) == w for w in words]
