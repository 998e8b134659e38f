#include "steps.h"

#include "operations.h"
#include "program.h"

#include <limits>

namespace framelift {

namespace {

constexpr uint64_t NEVER_SEEN = std::numeric_limits<uint64_t>::max();
constexpr uint64_t NO_DICT = 0;

uint64_t version_of(PyObject* value, bool is_instances) {
  PyObject* dict = is_instances ? instance_dict(value) : PyDict_Check(value) ? value : nullptr;
  return dict == nullptr ? NO_DICT : dict_version(dict);
}

// Whether an object of this type may be given another by assigning to its __class__.
bool can_change(PyTypeObject* type) {
  return !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) ||
      PyType_IsSubtype(type, &PyModule_Type);
}

// Whether a check that held holds for as long as the node's value is the same object.
bool is_about_identity(const Check& check) {
  if (check.kind->lasts != Lasts::WITH_VALUE) {
    return false;
  }
  return check.kind->operand != OperandKind::TYPE ||
      !can_change(reinterpret_cast<PyTypeObject*>(check.operand.object.get()));
}

bool is_about_dict(const Check& check) {
  return check.kind->lasts == Lasts::WITH_ATTRIBUTES || check.kind->lasts == Lasts::WITH_KEYS;
}

// Whether a node's value must be a tuple, whose items are then what they are for as long as it is that tuple.
bool must_be_tuple(const Program& program, const Node& node) {
  for (int c = node.first_check; c < node.end_check; ++c) {
    const Check& check = program.checks[c];
    bool is_type = check.kind->operand == OperandKind::TYPE && check.kind->lasts == Lasts::WITH_VALUE;
    if (is_type && check.operand.object.get() == reinterpret_cast<PyObject*>(&PyTuple_Type)) {
      return true;
    }
  }
  return false;
}

PyObject* value_at(const Walk& walk, int node) {
  return node == FRAME ? walk.func : walk.values[node];
}

}  // namespace

// ---- preparation ----

void Steps::prepare(const Program& program) {
  int n_nodes = static_cast<int>(program.nodes.size());
  // What a node's value lasts with: the contents of a dict that it is found in, or in a tuple in there.
  std::vector<Contents*> homes(n_nodes, nullptr);
  std::vector<bool> is_tuple(n_nodes);
  std::vector<bool> is_fact(program.checks.size());
  // By the node that the dict belongs to, from FRAME on.
  std::vector<Contents> attributes(n_nodes + 1);
  std::vector<Contents> keys(n_nodes + 1);
  auto contents_of = [&](int node, Lasts lasts) -> Contents& {
    return (lasts == Lasts::WITH_ATTRIBUTES ? attributes : keys)[node + 1];
  };
  for (int i = 0; i < n_nodes; ++i) {
    const Node& node = program.nodes[i];
    if (node.kind->lasts == Lasts::WITH_VALUE) {
      homes[i] = node.parent != FRAME && is_tuple[node.parent] ? homes[node.parent] : nullptr;
    } else if (node.kind->lasts != Lasts::NO) {
      homes[i] = &contents_of(node.parent, node.kind->lasts);
    }
    is_tuple[i] = homes[i] != nullptr && must_be_tuple(program, node);
    if (homes[i] != nullptr) {
      homes[i]->members.push_back(i);
    }
    for (int c = node.first_check; c < node.end_check; ++c) {
      const Check& check = program.checks[c];
      bool is_of_tuple = is_tuple[i] && check.kind->lasts == Lasts::WITH_KEYS;
      if (homes[i] != nullptr && (is_about_identity(check) || is_of_tuple)) {
        homes[i]->facts.push_back({i, c});
        is_fact[c] = true;
      } else if (is_about_dict(check)) {
        contents_of(i, check.kind->lasts).facts.push_back({i, c});
        is_fact[c] = true;
      }
    }
  }
  for (int i = FRAME; i < n_nodes; ++i) {
    if (i != FRAME) {
      const Node& node = program.nodes[i];
      if (homes[i] == nullptr) {
        steps_.push_back({Kind::ACCESS, i, -1});
      }
      for (int c = node.first_check; c < node.end_check; ++c) {
        if (!is_fact[c]) {
          steps_.push_back({Kind::CHECK, i, c});
        }
      }
      if (node.slot != NO_INPUT) {
        inputs_.push_back({i, node.slot});
      }
    }
    add_dict(i, true, attributes[i + 1]);
    add_dict(i, false, keys[i + 1]);
  }
}

void Steps::add_dict(int node, bool is_instances, const Contents& contents) {
  if (contents.members.empty() && contents.facts.empty()) {
    return;
  }
  auto place = [](const auto& all, const auto& added) {
    return Range{static_cast<int>(all.size()), static_cast<int>(all.size() + added.size())};
  };
  steps_.push_back({Kind::DICT, node, static_cast<int>(dicts_.size())});
  dicts_.push_back(
      {NEVER_SEEN, node, is_instances, place(members_, contents.members),
       place(facts_, contents.facts)});
  for (int member : contents.members) {
    members_.push_back({member, nullptr});
  }
  facts_.insert(facts_.end(), contents.facts.begin(), contents.facts.end());
}

// ---- evaluation ----

bool Steps::hold(Walk& walk, PyObject** inputs, Failure* failure) {
  for (const Step& step : steps_) {
    bool holds = step.kind == Kind::CHECK ? check(walk, step.node, step.index, failure)
        : step.kind == Kind::DICT         ? unchanged(walk, dicts_[step.index], failure)
                                          : read(walk, step.node, failure);
    if (!holds) {
      return false;
    }
  }
  for (const Input& input : inputs_) {
    inputs[input.slot] = walk.values[input.node];
  }
  return true;
}

bool Steps::read(Walk& walk, int at, Failure* failure) {
  Node& node = walk.program.nodes[at];
  PyObject* parent = value_at(walk, node.parent);
  PyObject* value = node.access(node.operand, walk, parent);
  if (value == nullptr) {
    walk.program.recent_failures.add(walk.program, at, -1);
    return fail(failure, FailureKind::ACCESS, at, parent);
  }
  walk.values[at] = value;
  return true;
}

bool Steps::check(Walk& walk, int node, int at, Failure* failure) {
  Check& check = walk.program.checks[at];
  if (check.holds(check.operand, walk, walk.values[node])) {
    return true;
  }
  walk.program.recent_failures.add(walk.program, node, at);
  int number = at - walk.program.nodes[node].first_check;
  return fail(failure, FailureKind::CHECK, node, walk.values[node], number);
}

bool Steps::unchanged(Walk& walk, Dict& dict, Failure* failure) {
  uint64_t version = version_of(value_at(walk, dict.node), dict.is_instances);
  if (version != dict.version) {
    return look_again(walk, dict, version, failure);
  }
  for (int i = dict.members.first; i < dict.members.end; ++i) {
    walk.values[members_[i].node] = members_[i].value;
  }
  return true;
}

bool Steps::look_again(Walk& walk, Dict& dict, uint64_t version, Failure* failure) {
  dict.version = NEVER_SEEN;
  // In the order of the nodes: what is said of a tuple comes before what is found in it.
  int fact = dict.facts.first;
  auto facts_hold = [&](int until) {
    while (fact < dict.facts.end && facts_[fact].node < until) {
      if (!check(walk, facts_[fact].node, facts_[fact].check, failure)) {
        return false;
      }
      ++fact;
    }
    return true;
  };
  for (int i = dict.members.first; i < dict.members.end; ++i) {
    int node = members_[i].node;
    if (!facts_hold(node) || !read(walk, node, failure)) {
      return false;
    }
    members_[i].value = walk.values[node];
  }
  if (!facts_hold(std::numeric_limits<int>::max())) {
    return false;
  }
  // A value without a __dict__ stays without one. A value that is no dict itself (a list, say) has no version.
  dict.version = version == NO_DICT && !dict.is_instances ? NEVER_SEEN : version;
  return true;
}

}  // namespace framelift
