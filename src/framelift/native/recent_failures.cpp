#include "recent_failures.h"

#include "operations.h"
#include "program.h"

#include <algorithm>

namespace framelift {

namespace {

// Adds a node and its ancestors. False where an access makes a reference that somebody has to own; such an
// access may also run Python code on a value that has not been checked.
bool add_path(const Program& program, int node, std::vector<int>& path) {
  for (; node != FRAME; node = program.nodes[node].parent) {
    if (program.nodes[node].kind->creates_reference) {
      return false;
    }
    path.push_back(node);
  }
  return true;
}

bool find_path(const Program& program, int node, int check, std::vector<int>& path) {
  if (!add_path(program, node, path)) {
    return false;
  }
  if (check >= 0 && program.checks[check].kind->operand == OperandKind::EARLIER_NODE &&
      !add_path(program, static_cast<int>(program.checks[check].operand.number), path)) {
    return false;
  }
  std::sort(path.begin(), path.end());
  path.erase(std::unique(path.begin(), path.end()), path.end());
  return true;
}

// Whether the values on the path are there; they are left in the walk.
bool follow(const std::vector<int>& path, Walk& walk) {
  for (int at : path) {
    Node& node = walk.program.nodes[at];
    PyObject* parent = node.parent == FRAME ? walk.func : walk.values[node.parent];
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

void RecentFailures::add(const Program& program, int node, int check) {
  for (const Place& place : places_) {
    if (place.node == node && place.check == check) {
      return;
    }
  }
  std::vector<int> path;
  if (!find_path(program, node, check, path)) {
    return;
  }
  Place place{node, check, std::move(path)};
  if (places_.size() < LIMIT) {
    places_.push_back(std::move(place));
  } else {
    places_[oldest_] = std::move(place);
    oldest_ = (oldest_ + 1) % LIMIT;
  }
}

bool RecentFailures::any_recurs(
    Program& program, PyObject* func, PyObject* const* locals, Py_ssize_t n_locals) const {
  if (places_.empty()) {
    return false;
  }
  return with_pointers(program.nodes.size(), [&](PyObject** values) {
    Walk walk{program, func, locals, n_locals, values, nullptr};
    return std::any_of(places_.begin(), places_.end(), [&](const Place& place) {
      return !follow(place.path, walk) ||
          (place.check >= 0 && !holds(program.checks[place.check], walk, place.node));
    });
  });
}

}  // namespace framelift
