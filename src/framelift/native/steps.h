// How a program is evaluated: in steps, of which those that read unchanged dicts are one comparison.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace framelift {

struct Program;
struct Walk;
struct Failure;

// Most outside values are found in dicts: globals, the attributes of modules, their parameters. What was
// read from a dict (members), and what is then known for good (facts: that a value is this object, that a
// name is absent), holds for as long as that dict has the version it had then. So each dict is one step,
// taken as soon as what it belongs to is known; what remains is looked at each time.
class Steps {
 public:
  // When the program's nodes and checks are complete.
  void prepare(const Program& program);
  // Whether all checks of the nodes hold; then `inputs` is filled with borrowed values.
  bool hold(Walk& walk, PyObject** inputs, Failure* failure);

 private:
  enum class Kind { ACCESS, CHECK, DICT };
  struct Step {
    Kind kind;
    int node;
    int index;  // of the check or the dict
  };
  struct Member {
    int node;
    PyObject* value;  // borrowed: the unchanged dict holds it
  };
  struct Fact {
    int node;
    int check;
  };
  struct Range {
    int first;
    int end;
  };
  struct Dict {
    uint64_t version;  // for which members and facts were found to be so
    int node;          // what it belongs to
    bool is_instances;  // the value's __dict__, not the value itself
    Range members;
    Range facts;
  };
  struct Input {
    int node;
    int slot;
  };
  struct Contents {
    std::vector<int> members;
    std::vector<Fact> facts;
  };

  void add_dict(int node, bool is_instances, const Contents& contents);
  bool read(Walk& walk, int node, Failure* failure);
  bool check(Walk& walk, int node, int check, Failure* failure);
  bool unchanged(Walk& walk, Dict& dict, Failure* failure);
  bool look_again(Walk& walk, Dict& dict, uint64_t version, Failure* failure);

  std::vector<Step> steps_;
  std::vector<Dict> dicts_;
  std::vector<Member> members_;
  std::vector<Fact> facts_;
  std::vector<Input> inputs_;
};

}  // namespace framelift
