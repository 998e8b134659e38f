#include "doubts.h"

#include "operations.h"
#include "program.h"

#include <algorithm>

namespace framelift {

namespace {

// A node and what it is reached through; false where an access may run Python code on a value that
// has not been checked, or makes a reference that somebody has to own.
bool add_way(const Program& program, int node, std::vector<int>& way) {
  for (; node >= 0; node = program.nodes[node].parent) {
    if (program.nodes[node].kind->creates_reference) {
      return false;
    }
    way.push_back(node);
  }
  return true;
}

bool find_way(const Program& program, int node, int check, std::vector<int>& way) {
  if (!add_way(program, node, way)) {
    return false;
  }
  if (check >= 0) {
    const CheckKind& kind = *program.checks[check].kind;
    int other = static_cast<int>(program.checks[check].operand.number);
    if (kind.runs_python ||
        (kind.operand == OperandKind::EARLIER_NODE && !add_way(program, other, way))) {
      return false;
    }
  }
  std::sort(way.begin(), way.end());
  way.erase(std::unique(way.begin(), way.end()), way.end());
  return true;
}

// Whether the values on the way can be had; they are left in the walk.
bool go(const std::vector<int>& way, Walk& walk) {
  for (int at : way) {
    Node& node = walk.program.nodes[at];
    PyObject* parent = node.parent < 0 ? walk.func : walk.values[node.parent];
    walk.values[at] = node.access(node.operand, walk, parent);
    if (walk.values[at] == nullptr) {
      return false;
    }
  }
  return true;
}

bool holds(Check& check, Walk& walk, int node) {
  return check.holds(check.operand, walk, walk.values[node]);
}

}  // namespace

void Doubts::note(const Program& program, int node, int check) {
  for (const Doubt& doubt : doubts_) {
    if (doubt.node == node && doubt.check == check) {
      return;
    }
  }
  std::vector<int> way;
  if (!find_way(program, node, check, way)) {
    return;
  }
  Doubt doubt{node, check, std::move(way)};
  if (doubts_.size() < LIMIT) {
    doubts_.push_back(std::move(doubt));
  } else {
    doubts_[oldest_] = std::move(doubt);
    oldest_ = (oldest_ + 1) % LIMIT;
  }
}

bool Doubts::confirmed(
    Program& program, PyObject* func, PyObject* const* locals, Py_ssize_t n_locals) const {
  if (doubts_.empty()) {
    return false;
  }
  return with_pointers(program.nodes.size(), [&](PyObject** values) {
    Walk walk{program, func, locals, n_locals, values, nullptr};
    return std::any_of(doubts_.begin(), doubts_.end(), [&](const Doubt& doubt) {
      return !go(doubt.way, walk) || (doubt.check >= 0 && !holds(program.checks[doubt.check], walk, doubt.node));
    });
  });
}

}  // namespace framelift
