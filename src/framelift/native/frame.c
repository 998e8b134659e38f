/* framelift._frame: the frame-evaluation hook (PEP 523). Knows nothing of torch.
 *
 * A thread is in one of three modes:
 *
 *   OFF        Python frames run as if this module did not exist.
 *   RUN        a compiled call is in progress: each fresh frame is looked at for an entry to run instead.
 *   INTERCEPT  C code runs on behalf of a trace: each fresh frame goes to the thread's interceptor.
 *
 * call(), native() and untouched() call a function in one of these modes. What happens to a frame
 * depends on the decision kept with its code object; the `decide` callback makes it at first sight.
 * The hook is installed only while some call(), native() or bind() is on some thread's stack, and
 * everything of ours that it calls is called in mode OFF.
 *
 * What runs instead of a frame may stop on the way (Stop): then one step is done as plain Python would do
 * it, and a function that goes on behind it is called. That function may stop as well, and so on, as often
 * as a loop goes round: the calls are made one after the other, not one in the other.
 *
 * No recursion is counted here. What replaces a frame runs in mode OFF, so coming back to the hook takes
 * another call(), native() or bind(), and CPython counts calls of C functions as it counts frames.
 */

#define _GNU_SOURCE /* dladdr() */
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>
#ifdef Py_GIL_DISABLED
#error "framelift needs a CPython with the GIL: this is a free-threaded build"
#endif
#undef _PyGC_FINALIZED /* 3.11 defines it both publicly and, differently, internally */
#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_interpframe.h"
#else
#include "internal/pycore_frame.h"
#endif
#if PY_VERSION_HEX >= 0x030D0000
#include "internal/pycore_ceval.h"
#include "internal/pycore_modsupport.h"
#endif
#include "opcode.h"

#include <dlfcn.h>
#include <stdbool.h>

typedef _PyInterpreterFrame Frame;

/* ---- What differs between CPython versions ---- */

#if PY_VERSION_HEX >= 0x030C0000

#define request_code_extra_index PyUnstable_Eval_RequestCodeExtraIndex
#define code_get_extra PyUnstable_Code_GetExtra
#define code_set_extra PyUnstable_Code_SetExtra
#define recursion_left py_recursion_remaining

#if PY_VERSION_HEX >= 0x030E0000
/* What a frame holds are tagged references. 3.14 is refused when Framelift is imported (core/versions.py). */
static inline PyObject *frame_function(Frame *frame) { return PyStackRef_AsPyObjectBorrow(frame->f_funcobj); }
#else
static inline PyObject *frame_function(Frame *frame) { return frame->f_funcobj; }
#endif

#else

#define request_code_extra_index _PyEval_RequestCodeExtraIndex
#define code_get_extra _PyCode_GetExtra
#define code_set_extra _PyCode_SetExtra
#define recursion_left recursion_remaining

static inline PyObject *frame_function(Frame *frame) { return (PyObject *)frame->f_func; }

#endif

/* From 3.12 on the evaluator owns the frame: it has to clear it and pop it from the thread's data stack. */

#if PY_VERSION_HEX >= 0x030D0000

static inline PyCodeObject *frame_code(Frame *frame) { return _PyFrame_GetCode(frame); }

static int init_version(void) { return 0; }

/* Disposes of a frame that has not been started. A pending exception stays pending. */
static void discard_frame(PyThreadState *ts, Frame *frame)
{
    PyObject *pending = PyErr_GetRaisedException();
    _PyEval_FrameClearAndPop(ts, frame);
    PyErr_SetRaisedException(pending);
}

#else

static inline PyCodeObject *frame_code(Frame *frame) { return frame->f_code; }

#if PY_VERSION_HEX >= 0x030C0000

/* libpython 3.12 does not export the functions for that. So a frame that is not to run is given this code, whose
 * one instruction returns, and the default evaluator disposes of it. Without a RESUME the code polls no
 * signals, is never instrumented for tracing or monitoring, and its frame counts as incomplete: nobody
 * sees it. It fits every frame: how many locals to clear is in frame->stacktop, and it uses no stack. */
static PyObject *return_at_once;

static int init_version(void)
{
    const char instructions[] = {RETURN_CONST, 0};
    PyObject *empty = (PyObject *)PyCode_NewEmpty("<framelift>", "<replaced frame>", 1);
    if (empty == NULL) {
        return -1;
    }
    PyObject *replace = PyObject_GetAttrString(empty, "replace");
    PyObject *none = PyTuple_New(0);
    PyObject *fields = Py_BuildValue("{s:y#,s:(O),s:y#}", "co_code", instructions, (Py_ssize_t)2,
                                     "co_consts", Py_None, "co_exceptiontable", "", (Py_ssize_t)0);
    if (replace != NULL && none != NULL && fields != NULL) {
        return_at_once = PyObject_Call(replace, none, fields);
    }
    Py_XDECREF(fields);
    Py_XDECREF(none);
    Py_XDECREF(replace);
    Py_DECREF(empty);
    return return_at_once == NULL ? -1 : 0;
}

static void discard_frame(PyThreadState *ts, Frame *frame)
{
    PyObject *pending = PyErr_GetRaisedException();
    PyCodeObject *code = frame->f_code;
    frame->f_code = (PyCodeObject *)Py_NewRef(return_at_once);
    frame->prev_instr = _PyCode_CODE(frame->f_code) - 1;
    PyObject *nothing = _PyEval_EvalFrameDefault(ts, frame, 0);
    if (nothing == NULL) {
        /* Too deep a recursion: the frame has been cleared and popped nevertheless. */
        PyErr_Clear();
    }
    Py_XDECREF(nothing);
    Py_DECREF(code);
    PyErr_SetRaisedException(pending);
}

#else

static int init_version(void) { return 0; }

/* Until 3.11 the evaluator's caller clears and pops the frame. */
static inline void discard_frame(PyThreadState *ts, Frame *frame) { (void)ts, (void)frame; }

#endif
#endif

/* What the first slots of a frame that has not been started hold, borrowed; NULL where there is nothing. */
#if PY_VERSION_HEX >= 0x030E0000

static inline PyObject *slot_of(Frame *frame, Py_ssize_t i)
{
    _PyStackRef held = frame->localsplus[i];
    return PyStackRef_IsNull(held) ? NULL : PyStackRef_AsPyObjectBorrow(held);
}

#define WITH_SLOTS(frame, count, slots)                                                                                \
    PyObject *slots[(count) + 1];                                                                                      \
    for (Py_ssize_t i = 0; i < (count); i++) {                                                                         \
        slots[i] = slot_of(frame, i);                                                                                  \
    }

#else

static inline PyObject *slot_of(Frame *frame, Py_ssize_t i) { return frame->localsplus[i]; }

#define WITH_SLOTS(frame, count, slots) PyObject *const *slots = (frame)->localsplus;

#endif

/* What a weak reference refers to, borrowed; None if that is no more. */
static inline PyObject *referent(PyObject *reference)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* with the GIL held it is as good as its successor */
    return PyWeakref_GET_OBJECT(reference);
#pragma GCC diagnostic pop
}

/* ---- State ---- */

enum Mode { OFF, RUN, INTERCEPT };
enum Run { RUN_UNDECIDED, SKIP, SKIP_ALL, LOOK, STEP };
enum Intercept { INTERCEPT_UNDECIDED, LEAF, THROUGH, INTERPRET, REFUSE };

typedef struct {
    enum Mode mode;
    PyObject *context;     /* borrowed from call_in(): which of a code object's caches to look at, or NULL */
    PyObject *interceptor; /* owned, or NULL */
    PyObject *binding;     /* borrowed: the function whose next frame bind() waits for */
    Frame *chained;        /* the innermost frame handed to another evaluator */
    PyObject *handed;      /* borrowed: the function whose next frame gets what is in `given` for itself */
    PyObject *given;       /* borrowed: a tuple that nobody else has */
    int room;              /* how many frames beyond the program's limit ours may use now */
    int importing;         /* imports in progress that were begun while something is compiled */
    int handling;          /* handlers of signals that run while something is compiled: calls run as they are */
    Py_tracefunc tracer;   /* what sys.settrace() was given, while that is told of nothing */
    int pauses;            /* how often the thread has asked that no garbage be collected */
    bool stepped;          /* a step is done, and signals wait until it is known what goes on */
    bool resuming;         /* that function goes on behind a stop: what it stops at comes back to go_on() */
} Thread;

static _Thread_local Thread this_thread;

typedef PyObject *(*Dispatch)(PyObject *cache, PyObject *func, PyObject *const *locals, Py_ssize_t nlocals);

#define DISPATCH_CAPSULE "framelift._guards.dispatch"

static Py_ssize_t active;             /* calls that need the hook and are in progress, in all threads */
static _PyFrameEvalFunction previous; /* the evaluator that was there before the hook */
static PyObject *decide_callback;     /* owned, or NULL; so are the next two */
static PyObject *missed_callback;
static PyObject *dispatch_capsule;
static Dispatch dispatch; /* what the capsule holds */
static bool eager;        /* compiled functions run as they are, in all threads */
static PyObject *redirect; /* owned, or NULL: says which context a call of a compiled function is in instead */

static PyObject *run_frame_untouched(PyThreadState *ts, Frame *frame, Thread *thread);

#include "constructors.h"
#include "interrupts.h"
#include "tracers.h"

/* ---- What is kept with a code object ---- */

typedef struct {
    enum Run run;
    enum Intercept intercept;
} Decision;

/* One function may be compiled several times with different options: each is a context with a cache of
 * its own, which the context keeps. Most code objects have one.
 *
 * Both are known here by weak references only. The collector does not see what a code object has, so a cache
 * that was kept here, and whose entries lead back to the code (through a class, a namespace, a function that
 * calls itself), would never be freed. */
typedef struct Slot {
    PyObject *context; /* a weak reference, or NULL for none */
    PyObject *cache;   /* a weak reference; without a context the cache itself; False: frames run as they are */
    struct Slot *next;
} Slot;

typedef struct {
    Decision decision;
    Slot *slots;
    Calls calls;
} CodeExtra;

static Py_ssize_t extra_index;

static void free_slot(Slot **place)
{
    Slot *slot = *place;
    *place = slot->next;
    Py_XDECREF(slot->context);
    Py_XDECREF(slot->cache);
    PyMem_Free(slot);
}

static void free_slots(CodeExtra *extra)
{
    while (extra->slots != NULL) {
        free_slot(&extra->slots);
    }
}

/* The slots of contexts that are no more. Weak references are freed without running any code. */
static void free_dead_slots(CodeExtra *extra)
{
    Slot **place = &extra->slots;
    while (*place != NULL) {
        if ((*place)->context != NULL && referent((*place)->context) == Py_None) {
            free_slot(place);
        } else {
            place = &(*place)->next;
        }
    }
}

/* CPython calls this when the code object dies, with NULL where another user of extras has made room. */
static void free_extra(void *extra)
{
    if (extra != NULL) {
        free_slots(extra);
        free_calls(&((CodeExtra *)extra)->calls);
        PyMem_Free(extra);
    }
}

static inline bool is_slot_of(Slot *slot, PyObject *context)
{
    return slot->context == NULL ? context == NULL
                                 : context != NULL && referent(slot->context) == context;
}

static inline Slot *find_slot(CodeExtra *extra, PyObject *context)
{
    Slot *slot = extra == NULL ? NULL : extra->slots;
    while (slot != NULL && !is_slot_of(slot, context)) {
        slot = slot->next;
    }
    return slot;
}

/* The cache, borrowed; False; or NULL. */
static inline PyObject *cache_in(Slot *slot)
{
    if (slot == NULL || slot->context == NULL || slot->cache == NULL || slot->cache == Py_False) {
        return slot == NULL ? NULL : slot->cache;
    }
    PyObject *cache = referent(slot->cache);
    return cache == Py_None ? NULL : cache;
}

/* The extra of a code object, NULL if it has none. Once made it lives as long as the code object. */
static inline CodeExtra *find_extra(PyObject *code)
{
    void *extra = NULL;
    code_get_extra(code, extra_index, &extra); /* fails only for what is no code object */
    return extra;
}

static CodeExtra *make_extra(PyObject *code)
{
    CodeExtra *extra = find_extra(code);
    if (extra != NULL) {
        return extra;
    }
    extra = PyMem_Calloc(1, sizeof(CodeExtra));
    if (extra == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (code_set_extra(code, extra_index, extra) < 0) {
        PyMem_Free(extra);
        return NULL;
    }
    return extra;
}

static bool is_code(PyObject *obj)
{
    if (!PyCode_Check(obj)) {
        PyErr_Format(PyExc_TypeError, "expected a code object, not %.200s", Py_TYPE(obj)->tp_name);
        return false;
    }
    return true;
}

static int remember_decision(PyObject *code, Decision decision)
{
    CodeExtra *extra = make_extra(code);
    if (extra == NULL) {
        return -1;
    }
    extra->decision = decision;
    return 0;
}

static bool check_decision(int run, int intercept)
{
    if (run < RUN_UNDECIDED || run > STEP || intercept < INTERCEPT_UNDECIDED || intercept > REFUSE) {
        PyErr_Format(PyExc_ValueError, "no such decision: (%d, %d)", run, intercept);
        return false;
    }
    return true;
}

/* ---- Frames ---- */

/* A generator's frame comes to the evaluator at each resumption, a thrown-into one with an exception:
 * only a frame that has not begun may be replaced. */
static inline bool is_fresh(Frame *frame, int throwflag)
{
    return !throwflag && frame->owner == FRAME_OWNED_BY_THREAD;
}

/* The arguments, as CPython has bound them. Cells are made by the frame's first instructions, so an
 * argument that will live in a cell is here still as itself. */
static PyObject *bound_arguments(Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    Py_ssize_t count = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                       !!(code->co_flags & CO_VARKEYWORDS);
    PyObject *arguments = PyList_New(count);
    if (arguments != NULL) {
        for (Py_ssize_t i = 0; i < count; i++) {
            PyList_SET_ITEM(arguments, i, Py_NewRef(slot_of(frame, i)));
        }
    }
    return arguments;
}

/* The namespace that a class body or exec() runs in; None for a function. */
static PyObject *frame_namespace(Frame *frame)
{
    bool is_function = (frame_code(frame)->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) != 0;
    return is_function || frame->f_locals == NULL ? Py_None : frame->f_locals;
}

/* Another evaluator that came after us may chain to the hook, and by the time the hook is
 * installed again it may itself be `previous`: this_thread.chained stops the two from calling
 * each other forever. */
static inline PyObject *run_frame(PyThreadState *ts, Frame *frame, int throwflag)
{
    if (previous == _PyEval_EvalFrameDefault) {
        return _PyEval_EvalFrameDefault(ts, frame, throwflag);
    }
    Thread *thread = &this_thread;
    Frame *outer = thread->chained;
    thread->chained = frame;
    PyObject *result = previous(ts, frame, throwflag);
    thread->chained = outer;
    return result;
}

/* The frame itself, with what it calls seen. */
static PyObject *run_frame_looking(PyThreadState *ts, Frame *frame)
{
    CodeExtra *extra = find_extra((PyObject *)frame_code(frame));
    if (extra != NULL) {
        show_constructors(frame_code(frame), &extra->calls);
    }
    return run_frame(ts, frame, 0);
}

static PyObject *run_frame_untouched(PyThreadState *ts, Frame *frame, Thread *thread)
{
    enum Mode mode = thread->mode;
    thread->mode = OFF;
    PyObject *result = run_frame(ts, frame, 0);
    thread->mode = mode;
    return result;
}

/* Ends a fresh frame without running it, with this result or, if NULL, the pending exception. */
static inline PyObject *replace_frame(PyThreadState *ts, Frame *frame, PyObject *result)
{
    discard_frame(ts, frame);
    return result;
}

/* ---- Calls out of the hook ---- */

/* Any of them may drop the reference that the callable is known by (set_callbacks, set_interceptor). */
static PyObject *call_out(Thread *thread, PyObject *callable, PyObject *const *args, Py_ssize_t nargs)
{
    enum Mode mode = thread->mode;
    thread->mode = OFF;
    Py_INCREF(callable);
    PyObject *result = PyObject_Vectorcall(callable, args, nargs, NULL);
    Py_DECREF(callable);
    thread->mode = mode;
    return result;
}

/* How many frames of ours, of which the program knows nothing, do not count against its recursion limit. */
#define ROOM 400

/* Like call_out(), for what must work however deep the program is. What runs of the program in there is
 * traced, which goes by recursion_left(). */
static PyObject *call_with_room(Thread *thread, PyObject *callable, PyObject *const *args, Py_ssize_t nargs)
{
    PyThreadState *ts = PyThreadState_Get();
    ts->recursion_left += ROOM;
    thread->room += ROOM;
    bool holds = hold_signals();
    bool hidden = hide_frames(ts);
    PyObject *result = call_out(thread, callable, args, nargs);
    if (hidden) {
        show_frames(ts);
    }
    if (holds) {
        let_signals_through();
    }
    thread->room -= ROOM;
    ts->recursion_left -= ROOM;
    return result;
}

static int ask_for_decision(Thread *thread, Frame *frame, Decision *decision)
{
    PyObject *args[] = {frame_function(frame), (PyObject *)frame_code(frame)};
    PyObject *answer = call_with_room(thread, decide_callback, args, 2);
    if (answer == NULL) {
        return -1;
    }
    int run, intercept;
    int parsed = PyTuple_Check(answer) && PyArg_ParseTuple(answer, "ii", &run, &intercept);
    if (!parsed && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "decide must return a tuple of two ints, not %.200s",
                     Py_TYPE(answer)->tp_name);
    }
    Py_DECREF(answer);
    if (!parsed || !check_decision(run, intercept)) {
        return -1;
    }
    /* set_decision() may have decided one half before: that stands. */
    if (decision->run == RUN_UNDECIDED) {
        decision->run = run;
    }
    if (decision->intercept == INTERCEPT_UNDECIDED) {
        decision->intercept = intercept;
    }
    return remember_decision((PyObject *)frame_code(frame), *decision);
}

/* The decision for the frame's code; a half that nobody decides lets the frame run, looking below it. */
static inline int decide(Thread *thread, Frame *frame, Decision *decision)
{
    CodeExtra *extra = find_extra((PyObject *)frame_code(frame));
    *decision = extra != NULL ? extra->decision : (Decision){RUN_UNDECIDED, INTERCEPT_UNDECIDED};
    bool decided = thread->mode == RUN ? decision->run != RUN_UNDECIDED
                                       : decision->intercept != INTERCEPT_UNDECIDED;
    return decided || decide_callback == NULL ? 0 : ask_for_decision(thread, frame, decision);
}

/* Tries the entries of the frame's code. NULL without an exception: none of them holds. */
static PyObject *run_entry(Thread *thread, Frame *frame, PyObject *cache)
{
    if (cache == NULL || dispatch == NULL) {
        return NULL;
    }
    Py_INCREF(cache); /* the call may replace it */
    enum Mode mode = thread->mode;
    thread->mode = OFF;
    Py_ssize_t count = frame_code(frame)->co_nlocalsplus;
    WITH_SLOTS(frame, count, slots)
    PyObject *result = dispatch(cache, frame_function(frame), slots, count);
    thread->mode = mode;
    Py_DECREF(cache);
    return result;
}

static bool is_replacement(PyObject *answer)
{
    return PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 2 &&
           PyTuple_Check(PyTuple_GET_ITEM(answer, 1));
}

static inline bool is_again(PyObject *result);

/* What the `missed` callback wants instead of the frame: a tuple (callable, args); None: the frame itself;
 * False: the frame itself, with nothing below it looked at; what observed() gives: the frame itself, and to be told
 * what came of it. NULL without an exception: a signal's handler has raised meanwhile, and the frame is to. */
static PyObject *ask_for_replacement(Thread *thread, Frame *frame)
{
    PyObject *arguments = bound_arguments(frame);
    if (arguments == NULL) {
        return NULL;
    }
    PyObject *args[] = {frame_function(frame), arguments};
    Shield made;
    raise_shield(&made);
    PyObject *answer = lower_shield(thread, &made, call_with_room(thread, missed_callback, args, 2));
    Py_DECREF(arguments);
    if (made.raised.value != NULL) {
        raise_soon(&made.raised);
        return NULL;
    }
    if (answer != NULL && answer != Py_None && answer != Py_False && !is_replacement(answer) &&
        !is_again(answer)) {
        PyErr_Format(PyExc_TypeError, "missed must return None, False or a tuple (callable, args), not %R", answer);
        Py_CLEAR(answer);
    }
    return answer;
}

/* ---- Stopping and going on ---- */
/* What a region returns where it ends in the middle of its frame: step(*args) does what comes next, and
 * then(what that gave) says what goes on: a tuple (function, arguments). Without a step it is then(None).
 * A region that has done nothing may ask for the frame itself to be run again instead, with nothing below it
 * looked at; if that does not raise, then() is called, which may. What is asked about a frame without an entry may
 * have it run too, and be told what came of it: then(the exception that it raised, or None). */
typedef struct {
    PyObject_HEAD
    PyObject *step; /* owned, or NULL; so are the other two */
    PyObject *args;
    PyObject *then;
    bool again;
    bool told;  /* whether then() gets the exception, if there is one */
    bool looks; /* whether what runs below the frame is looked at */
} Stop;

static void stop_dealloc(Stop *stop)
{
    PyObject_GC_UnTrack(stop);
    Py_XDECREF(stop->step);
    Py_XDECREF(stop->args);
    Py_XDECREF(stop->then);
    PyObject_GC_Del(stop);
}

static int stop_traverse(Stop *stop, visitproc visit, void *arg)
{
    Py_VISIT(stop->step);
    Py_VISIT(stop->args);
    Py_VISIT(stop->then);
    return 0;
}

static PyTypeObject StopType;

static PyObject *make_stop(PyObject *step, PyObject *args, PyObject *then, bool again)
{
    Stop *stop = PyObject_GC_New(Stop, &StopType);
    if (stop != NULL) {
        stop->step = Py_XNewRef(step);
        stop->args = Py_XNewRef(args);
        stop->then = Py_NewRef(then);
        stop->again = again;
        stop->told = stop->looks = false;
        PyObject_GC_Track(stop);
    }
    return (PyObject *)stop;
}

static PyObject *stop_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    PyObject *step, *given, *then;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "Stop() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OO!O:Stop", &step, &PyTuple_Type, &given, &then)) {
        return NULL;
    }
    return make_stop(Py_IsNone(step) ? NULL : step, given, then, false);
}

/* `then` may be an exception of a signal's handler, which the frame is to raise instead of running. */
static PyObject *frame_again(PyObject *Py_UNUSED(module), PyObject *then)
{
    return make_stop(NULL, NULL, then, true);
}

static PyObject *frame_observed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "observed() takes two arguments");
        return NULL;
    }
    PyObject *stop = make_stop(NULL, NULL, args[0], true);
    if (stop != NULL) {
        ((Stop *)stop)->told = true;
        ((Stop *)stop)->looks = args[1] == Py_True;
    }
    return stop;
}

static PyTypeObject StopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift._frame.Stop",
    .tp_basicsize = sizeof(Stop),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Stop(step, args, then, /)\n--\n\n"
              "What a region returns that ends in the middle of its frame.",
    .tp_new = stop_new,
    .tp_dealloc = (destructor)stop_dealloc,
    .tp_traverse = (traverseproc)stop_traverse,
};

static inline bool is_stop(PyObject *result) { return result != NULL && Py_IS_TYPE(result, &StopType); }
static inline bool is_again(PyObject *result) { return is_stop(result) && ((Stop *)result)->again; }

/* Whether a frame that is to run again is to raise what interrupted its region. If so steals the stop. */
static bool takes_interrupt(Stop *again)
{
    if (!PyExceptionInstance_Check(again->then)) {
        return false;
    }
    PyObject *error = again->then;
    Raised raised = kept_raised(Py_NewRef(error), ((PyBaseExceptionObject *)error)->traceback);
    Py_DECREF(again);
    raise_soon(&raised);
    return true;
}

/* Steals both. */
static PyObject *settle(Thread *thread, Stop *again, PyObject *result)
{
    if (result != NULL) {
        PyObject *nothing = Py_None;
        PyObject *answer = call_with_room(thread, again->then, &nothing, again->told ? 1 : 0);
        if (answer == NULL) {
            Py_CLEAR(result);
        }
        Py_XDECREF(answer);
        Py_DECREF(again);
        return result;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (again->told) {
        PyErr_NormalizeException(&type, &value, &traceback);
        PyObject *answer = call_with_room(thread, again->then, &value, 1);
        if (answer == NULL) {
            PyErr_Clear(); /* what the program raised comes before it */
        }
        Py_XDECREF(answer);
    }
    Py_DECREF(again);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

/* Calls a function with a tuple of which it gets the references: once the frame has its arguments, nothing
 * here keeps them alive. */
static PyObject *hand_over(Thread *thread, PyObject *function, PyObject *args, bool resuming)
{
    thread->handed = function;
    thread->given = Py_REFCNT(args) == 1 ? args : NULL;
    thread->resuming = resuming;
    PyObject *result = PyObject_Vectorcall(function, ((PyTupleObject *)args)->ob_item, PyTuple_GET_SIZE(args), NULL);
    thread->handed = NULL;
    thread->resuming = false;
    Py_DECREF(args);
    return result;
}

/* The frame that hand_over() waits for. */
static bool take_over(Thread *thread)
{
    thread->handed = NULL;
    if (thread->given != NULL) {
        PyObject **items = ((PyTupleObject *)thread->given)->ob_item;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(thread->given); i++) {
            Py_CLEAR(items[i]);
        }
        thread->given = NULL;
    }
    bool resuming = thread->resuming;
    thread->resuming = false;
    return resuming;
}

/* Takes the step that a stop is about, and calls what goes on behind it. Steals the stop. */
static PyObject *go_on_once(Thread *thread, Stop *stop)
{
    PyObject *outcome = Py_NewRef(Py_None);
    if (stop->step != NULL) {
        PyObject *args = stop->args;
        stop->args = NULL;
        Py_SETREF(outcome, hand_over(thread, stop->step, args, false));
    }
    bool holds = thread->stepped;
    thread->stepped = false;
    PyObject *next = outcome == NULL ? NULL : call_with_room(thread, stop->then, &outcome, 1);
    Py_XDECREF(outcome);
    Py_DECREF(stop);
    if (holds) {
        let_signals_through();
    }
    if (next == NULL || !is_replacement(next)) {
        if (next != NULL) {
            PyErr_Format(PyExc_TypeError, "what goes on must be a tuple (function, arguments), not %R", next);
            Py_DECREF(next);
        }
        return NULL;
    }
    PyObject *function = Py_NewRef(PyTuple_GET_ITEM(next, 0));
    PyObject *args = Py_NewRef(PyTuple_GET_ITEM(next, 1));
    Py_DECREF(next);
    PyObject *result = hand_over(thread, function, args, true);
    Py_DECREF(function);
    return result;
}

/* In mode RUN, and nothing of the frame that was stopped is left but its result. */
static PyObject *go_on(Thread *thread, PyObject *result)
{
    while (is_stop(result)) {
        result = go_on_once(thread, (Stop *)result);
    }
    return result;
}

enum Outcome { REPLACED, RUN_LOOKING, RUN_UNTOUCHED, RUN_AGAIN, RUN_INTERRUPTED };

/* Runs something instead of the frame, or says how the frame itself is to run. */
static enum Outcome run_instead(Thread *thread, Frame *frame, PyObject **result)
{
    Slot *slot = find_slot(find_extra((PyObject *)frame_code(frame)), thread->context);
    PyObject *cache = cache_in(slot);
    if (cache == Py_False) {
        return RUN_LOOKING;
    }
    *result = run_entry(thread, frame, cache);
    if (*result != NULL || PyErr_Occurred()) {
        return is_again(*result) ? RUN_AGAIN : REPLACED;
    }
    if (missed_callback == NULL) {
        return RUN_LOOKING;
    }
    PyObject *answer = ask_for_replacement(thread, frame);
    if (answer == Py_None || answer == Py_False) {
        enum Outcome outcome = answer == Py_None ? RUN_LOOKING : RUN_UNTOUCHED;
        Py_DECREF(answer);
        return outcome;
    }
    if (is_again(answer)) {
        *result = answer;
        return RUN_AGAIN;
    }
    if (answer != NULL) {
        PyObject *args = PyTuple_GET_ITEM(answer, 1);
        *result = call_out(thread, PyTuple_GET_ITEM(answer, 0), ((PyTupleObject *)args)->ob_item,
                           PyTuple_GET_SIZE(args));
        Py_DECREF(answer);
    } else if (!PyErr_Occurred()) {
        return RUN_INTERRUPTED;
    }
    return is_again(*result) ? RUN_AGAIN : REPLACED;
}

static PyObject *call_interceptor(Thread *thread, Frame *frame)
{
    PyObject *arguments = bound_arguments(frame);
    if (arguments == NULL) {
        return NULL;
    }
    PyObject *args[] = {frame_function(frame), arguments, frame_namespace(frame)};
    PyObject *result = call_out(thread, thread->interceptor, args, 3);
    Py_DECREF(arguments);
    return result;
}

/* ---- The hook ---- */

static PyObject *evaluate_in_run_mode(PyThreadState *ts, Frame *frame, Thread *thread)
{
    bool resuming = thread->handed != NULL && frame_function(frame) == thread->handed && take_over(thread);
    if (eager) {
        return run_frame(ts, frame, 0);
    }
    Decision decision;
    if (decide(thread, frame, &decision) < 0) {
        return replace_frame(ts, frame, NULL);
    }
    PyObject *result;
    switch (decision.run) {
    case SKIP_ALL:
        return run_frame_untouched(ts, frame, thread);
    case STEP:
        /* Frames that wait for this one would take a signal from here on for one that came to them. */
        result = run_frame_looking(ts, frame);
        thread->stepped = result != NULL && hold_signals();
        return result;
    case LOOK:
        switch (run_instead(thread, frame, &result)) {
        case REPLACED:
            return replace_frame(ts, frame, resuming ? result : go_on(thread, result));
        case RUN_UNTOUCHED:
            return run_frame_untouched(ts, frame, thread);
        case RUN_INTERRUPTED:
            /* Where nothing below could raise it yet, the frame does not begin at all. */
            return signals_wait() ? replace_frame(ts, frame, raise_at_last(NULL))
                                  : raise_at_last(run_frame_untouched(ts, frame, thread));
        case RUN_AGAIN:
            if (takes_interrupt((Stop *)result)) {
                return raise_at_last(run_frame_untouched(ts, frame, thread));
            }
            return settle(thread, (Stop *)result,
                          ((Stop *)result)->looks ? run_frame_looking(ts, frame) : run_frame_untouched(ts, frame, thread));
        default:
            return run_frame_looking(ts, frame);
        }
    default:
        return run_frame_looking(ts, frame);
    }
}

static PyObject *evaluate_in_intercept_mode(PyThreadState *ts, Frame *frame, Thread *thread)
{
    Decision decision;
    if (decide(thread, frame, &decision) < 0) {
        return replace_frame(ts, frame, NULL);
    }
    if (decision.intercept == LEAF) {
        return run_frame_untouched(ts, frame, thread);
    }
    if (decision.intercept >= INTERPRET && thread->interceptor != NULL) {
        return replace_frame(ts, frame, call_interceptor(thread, frame));
    }
    return run_frame_looking(ts, frame);
}

static PyObject *evaluate(PyThreadState *ts, Frame *frame, int throwflag);

/* Between bind() and the frame that it waits for, other frames can come: __eq__ of a keyword that is a
 * subclass of str, a finalizer. Nothing below them is what bind() waits for. */
static PyObject *evaluate_while_binding(PyThreadState *ts, Frame *frame, int throwflag, Thread *thread)
{
    PyObject *func = thread->binding;
    thread->binding = NULL;
    if (is_fresh(frame, throwflag) && frame_function(frame) == func) {
        return replace_frame(ts, frame, bound_arguments(frame));
    }
    PyObject *result = evaluate(ts, frame, throwflag);
    thread->binding = func;
    return result;
}

static PyObject *evaluate(PyThreadState *ts, Frame *frame, int throwflag)
{
    Thread *thread = &this_thread;
    if (frame == thread->chained) {
        return _PyEval_EvalFrameDefault(ts, frame, throwflag);
    }
    if (thread->binding != NULL) {
        return evaluate_while_binding(ts, frame, throwflag, thread);
    }
    if (signals_thread != 0 || exposed != NULL) {
        if (is_fresh(frame, throwflag) && poll_on_entry(thread) < 0) {
            return replace_frame(ts, frame, NULL);
        }
        if (frame_code(frame) == import_code && thread->mode != RUN && is_fresh(frame, throwflag)) {
            return run_import(ts, frame, thread);
        }
        if (enters_handler(frame) && !ts->tracing) {
            Aside aside = begin_handling(thread);
            PyObject *result = run_frame(ts, frame, throwflag);
            end_handling(thread, &aside);
            return result;
        }
    }
    /* What sys.setprofile() and sys.settrace() were given is no part of the program. */
    if (thread->mode == OFF || ts->tracing || !is_fresh(frame, throwflag)) {
        return run_frame(ts, frame, throwflag);
    }
    return thread->mode == RUN ? evaluate_in_run_mode(ts, frame, thread)
                               : evaluate_in_intercept_mode(ts, frame, thread);
}

/* ---- Installing it ---- */

/* Looks at the evaluator each time, not only at the first: somebody may have put another one in since. */
static inline void enter_hook(void)
{
    active++;
    PyInterpreterState *interp = PyInterpreterState_Get();
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interp);
    if (current != evaluate) {
        previous = current;
        _PyInterpreterState_SetEvalFrameFunc(interp, evaluate);
    }
}

/* An evaluator that was installed over the hook stays: it is not ours to remove. */
static inline void leave_hook(void)
{
    if (--active == 0) {
        PyInterpreterState *interp = PyInterpreterState_Get();
        if (_PyInterpreterState_GetEvalFrameFunc(interp) == evaluate) {
            _PyInterpreterState_SetEvalFrameFunc(interp, previous);
        }
    }
}

/* ---- Python functions: calls in a mode ---- */

/* The traceback that an error gets which C has raised without any Python code: what was called here was called
   on behalf of the program, so the error is the program's and not Framelift's (framelift/core/blame.py). */
static PyObject *program_mark;

static void mark_error(void)
{
    if (program_mark == NULL) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (traceback == NULL) {
        traceback = Py_NewRef(program_mark);
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *frame_set_program_mark(PyObject *module, PyObject *traceback)
{
    Py_XSETREF(program_mark, Py_NewRef(traceback));
    Py_RETURN_NONE;
}

static inline PyObject *call_in_mode(enum Mode mode, PyObject *const *args, Py_ssize_t nargs,
                                     PyObject *kwnames)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "expected a function to call as the first argument");
        return NULL;
    }
    Thread *thread = &this_thread;
    enum Mode outer = thread->mode;
    thread->mode = mode;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, nargs - 1, kwnames);
    thread->mode = outer;
    if (result == NULL) {
        mark_error();
    }
    return result;
}

static PyObject *frame_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    enter_hook();
    PyObject *result = call_in_mode(RUN, args, nargs, kwnames);
    leave_hook();
    return result;
}

/* Whether this thread runs a function that torch's own compiler was given: the innermost wrapper of torch's on its
 * stack is such a function's, and not one that switches the compiler off. */
static bool is_within_torchs_compiler(void)
{
    static const char file[] = "torch/_dynamo/eval_frame.py";
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    bool found = false, within = false;
    while (frame != NULL && !found) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        Py_ssize_t size = 0;
        const char *name = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
        const char *within_class = PyUnicode_AsUTF8(code->co_qualname);
        if (name == NULL || within_class == NULL) {
            PyErr_Clear();
        } else if (size >= (Py_ssize_t)sizeof(file) - 1 && strcmp(name + size - (sizeof(file) - 1), file) == 0) {
            found = true;
            within = strncmp(within_class, "DisableContext", strlen("DisableContext")) != 0;
        }
        Py_DECREF(code);
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    Py_XDECREF(frame);
    return within;
}

/* Whether torch's own compiler looks at this thread's frames now: what it is to compile it gets as it is. Its
 * evaluator, which is there for all threads, is known by the library that it is in; other evaluators, such as
 * debuggers', go well with the hook. */
static bool torchs_compiler_is_active(void)
{
    static _PyFrameEvalFunction known; /* the latest that was asked about */
    static bool torchs;
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    if (current == evaluate || current == _PyEval_EvalFrameDefault) {
        return false;
    }
    if (current != known) {
        Dl_info found;
        torchs = dladdr((void *)current, &found) != 0 && found.dli_fname != NULL &&
                 strstr(found.dli_fname, "libtorch_python") != NULL;
        known = current;
    }
    return torchs && is_within_torchs_compiler();
}

/* Which context a call is in, where something stands between: a new reference. */
static PyObject *redirected(Thread *thread, PyObject *context)
{
    enum Mode outer = thread->mode;
    thread->mode = OFF;
    PyObject *found = PyObject_CallOneArg(redirect, context);
    thread->mode = outer;
    return found;
}

/* call(), with the caches of one context in force. */
static PyObject *frame_call_in(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 2) {
        PyErr_SetString(PyExc_TypeError, "expected a context and a function to call");
        return NULL;
    }
    Thread *thread = &this_thread;
    if (eager || thread->handling || torchs_compiler_is_active()) {
        return call_in_mode(OFF, args + 1, nargs - 1, kwnames);
    }
    PyObject *context = args[0], *other = NULL;
    if (redirect != NULL) {
        context = other = redirected(thread, context);
        if (other == NULL) {
            return NULL;
        }
    }
    PyObject *outer = thread->context;
    thread->context = Py_IsNone(context) ? NULL : context;
    enter_hook();
    PyThreadState *ts = PyThreadState_Get();
    bool passes = pass_over(ts, thread);
    PyObject *result = call_in_mode(RUN, args + 1, nargs - 1, kwnames);
    if (passes) {
        pass_over_no_more(ts, thread);
    }
    leave_hook();
    thread->context = outer;
    Py_XDECREF(other);
    return result;
}

/* The same from here on, for a `with` statement: gives what leave_in() needs to put back what was. */
static PyObject *frame_enter_in(PyObject *module, PyObject *context)
{
    Thread *thread = &this_thread;
    PyObject *outer = thread->context == NULL ? Py_None : thread->context;
    PyObject *before = Py_BuildValue("(iO)", (int)thread->mode, outer);
    if (before != NULL) {
        thread->context = Py_IsNone(context) ? NULL : context;
        thread->mode = RUN;
        enter_hook();
    }
    return before;
}

static PyObject *frame_leave_in(PyObject *module, PyObject *before)
{
    int mode;
    PyObject *outer;
    if (!PyArg_ParseTuple(before, "iO", &mode, &outer)) {
        return NULL;
    }
    leave_hook();
    this_thread.mode = (enum Mode)mode;
    this_thread.context = Py_IsNone(outer) ? NULL : outer;
    Py_RETURN_NONE;
}

static PyObject *frame_native(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (poll(&this_thread) < 0) {
        return NULL;
    }
    enter_hook();
    PyObject *result = call_in_mode(INTERCEPT, args, nargs, kwnames);
    leave_hook();
    return result;
}

static PyObject *frame_untouched(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return call_in_mode(OFF, args, nargs, kwnames);
}

static PyObject *frame_dict_of(PyObject *module, PyObject *object)
{
    PyObject *found = PyObject_GenericGetDict(object, NULL);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return found;
}

static PyObject *frame_recursion_left(PyObject *module, PyObject *ignored)
{
    return PyLong_FromLong(PyThreadState_Get()->recursion_left - this_thread.room);
}

/* ---- Python functions: binding ---- */

static PyObject *call_to_bind(PyObject *func, PyObject *args, PyObject *kwargs)
{
    Thread *thread = &this_thread;
    thread->binding = func;
    PyObject *arguments = PyObject_Call(func, args, kwargs);
    bool taken = thread->binding == NULL;
    thread->binding = NULL;
    if (arguments != NULL && !taken) {
        Py_DECREF(arguments);
        PyErr_SetString(PyExc_RuntimeError, "another frame evaluator ran the function that was to be bound");
        return NULL;
    }
    return arguments;
}

static PyObject *frame_bind(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("bind", nargs, 3, 3)) {
        return NULL;
    }
    PyObject *kwargs = Py_IsNone(args[2]) ? NULL : args[2];
    if (!PyFunction_Check(args[0]) || !PyTuple_Check(args[1]) || (kwargs != NULL && !PyDict_Check(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "bind() takes a Python function, a tuple and a dict or None");
        return NULL;
    }
    enter_hook();
    PyObject *arguments = call_to_bind(args[0], args[1], kwargs);
    leave_hook();
    return arguments;
}

/* ---- Python functions: callbacks ---- */

static inline PyObject *none_to_null(PyObject *obj) { return Py_IsNone(obj) ? NULL : Py_NewRef(obj); }

static inline PyObject *null_to_none(PyObject *obj) { return obj == NULL ? Py_NewRef(Py_None) : obj; }

static PyObject *frame_set_interceptor(PyObject *module, PyObject *interceptor)
{
    PyObject *old = this_thread.interceptor;
    this_thread.interceptor = none_to_null(interceptor);
    return null_to_none(old);
}

static PyObject *frame_set_callbacks(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("set_callbacks", nargs, 2, 2)) {
        return NULL;
    }
    Py_XSETREF(decide_callback, none_to_null(args[0]));
    Py_XSETREF(missed_callback, none_to_null(args[1]));
    Py_RETURN_NONE;
}

static PyObject *frame_set_dispatch(PyObject *module, PyObject *capsule)
{
    void *function = NULL;
    if (!Py_IsNone(capsule)) {
        function = PyCapsule_GetPointer(capsule, DISPATCH_CAPSULE);
        if (function == NULL) {
            return NULL;
        }
    }
    dispatch = (Dispatch)function;
    Py_XSETREF(dispatch_capsule, none_to_null(capsule));
    Py_RETURN_NONE;
}

static PyObject *frame_set_eager(PyObject *module, PyObject *value)
{
    int truth = PyObject_IsTrue(value);
    if (truth < 0) {
        return NULL;
    }
    eager = truth;
    Py_RETURN_NONE;
}

static PyObject *frame_set_redirect(PyObject *module, PyObject *callback)
{
    Py_XSETREF(redirect, none_to_null(callback));
    Py_RETURN_NONE;
}

/* ---- Python functions: what is kept with a code object ---- */

static PyObject *frame_get_cache(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("get_cache", nargs, 1, 2) || !is_code(args[0])) {
        return NULL;
    }
    Slot *slot = find_slot(find_extra(args[0]), nargs == 2 && !Py_IsNone(args[1]) ? args[1] : NULL);
    return null_to_none(Py_XNewRef(cache_in(slot)));
}

/* What a slot has of a cache: see there. */
static PyObject *kept_cache(PyObject *cache, PyObject *context)
{
    return context == NULL || cache == Py_False ? Py_NewRef(cache) : PyWeakref_NewRef(cache, NULL);
}

static Slot *add_slot(CodeExtra *extra, PyObject *context)
{
    PyObject *known = context == NULL ? NULL : PyWeakref_NewRef(context, NULL);
    if (context != NULL && known == NULL) {
        return NULL;
    }
    Slot *slot = PyMem_Calloc(1, sizeof(Slot));
    if (slot == NULL) {
        Py_XDECREF(known);
        PyErr_NoMemory();
        return NULL;
    }
    free_dead_slots(extra);
    slot->context = known;
    slot->next = extra->slots;
    extra->slots = slot;
    return slot;
}

static PyObject *frame_set_cache(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("set_cache", nargs, 2, 3) || !is_code(args[0])) {
        return NULL;
    }
    PyObject *context = nargs == 3 && !Py_IsNone(args[2]) ? args[2] : NULL;
    CodeExtra *extra = make_extra(args[0]);
    if (extra == NULL) {
        return NULL;
    }
    PyObject *cache = Py_IsNone(args[1]) ? NULL : kept_cache(args[1], context);
    if (cache == NULL && PyErr_Occurred()) {
        return NULL;
    }
    Slot *slot = find_slot(extra, context);
    if (slot == NULL) {
        slot = add_slot(extra, context);
        if (slot == NULL) {
            Py_XDECREF(cache);
            return NULL;
        }
    }
    Py_XSETREF(slot->cache, cache);
    Py_RETURN_NONE;
}

static PyObject *frame_get_decision(PyObject *module, PyObject *code)
{
    if (!is_code(code)) {
        return NULL;
    }
    CodeExtra *extra = find_extra(code);
    return extra == NULL ? Py_BuildValue("ii", RUN_UNDECIDED, INTERCEPT_UNDECIDED)
                         : Py_BuildValue("ii", extra->decision.run, extra->decision.intercept);
}

static PyObject *frame_set_decision(PyObject *module, PyObject *args)
{
    PyObject *code;
    int run, intercept;
    if (!PyArg_ParseTuple(args, "O!ii:set_decision", &PyCode_Type, &code, &run, &intercept) ||
        !check_decision(run, intercept) || remember_decision(code, (Decision){run, intercept}) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *frame_clear(PyObject *module, PyObject *code)
{
    if (!is_code(code)) {
        return NULL;
    }
    CodeExtra *extra = find_extra(code);
    if (extra != NULL) {
        extra->decision = (Decision){RUN_UNDECIDED, INTERCEPT_UNDECIDED};
        free_slots(extra);
    }
    Py_RETURN_NONE;
}

/* ---- Python functions: the state of things ---- */

static PyObject *frame_mode(PyObject *module, PyObject *unused) { return PyLong_FromLong(this_thread.mode); }

static PyObject *frame_context(PyObject *module, PyObject *unused)
{
    return null_to_none(Py_XNewRef(this_thread.context));
}

static PyObject *frame_active(PyObject *module, PyObject *unused) { return PyLong_FromSsize_t(active); }

static PyObject *frame_installed(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate);
}

static PyObject *frame_swap_handled(PyObject *module, PyObject *exception)
{
    if (!Py_IsNone(exception) && !PyExceptionInstance_Check(exception)) {
        PyErr_Format(PyExc_TypeError, "expected an exception or None, not %.200s",
                     Py_TYPE(exception)->tp_name);
        return NULL;
    }
    PyObject *old = PyErr_GetHandledException();
    PyErr_SetHandledException(Py_IsNone(exception) ? NULL : exception);
    return null_to_none(old);
}

/* What C does with an exception that nobody can be told of, such as one of a finaliser. */
static PyObject *frame_unraisable(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("unraisable", nargs, 2, 2)) {
        return NULL;
    }
    if (!PyExceptionInstance_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "expected an exception, not %.200s", Py_TYPE(args[0])->tp_name);
        return NULL;
    }
    PyErr_Restore(Py_NewRef(Py_TYPE(args[0])), Py_NewRef(args[0]), PyException_GetTraceback(args[0]));
    PyErr_WriteUnraisable(args[1]);
    Py_RETURN_NONE;
}

/* ---- The module ---- */

#define FASTCALL_KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS
#define FASTCALL(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef methods[] = {
    {"call", FASTCALL_KEYWORDS(frame_call), "Call a function in mode RUN."},
    {"call_in", FASTCALL_KEYWORDS(frame_call_in), "Call a function in mode RUN and in a context."},
    {"set_program_mark", frame_set_program_mark, METH_O, "Set the traceback of errors that C raises in calls."},
    {"native", FASTCALL_KEYWORDS(frame_native), "Call a function in mode INTERCEPT."},
    {"dict_of", frame_dict_of, METH_O,
     "dict_of(object, /)\n--\n\nThe dictionary of an instance, or None, past what its class makes of `__dict__`."},
    {"recursion_left", frame_recursion_left, METH_NOARGS,
     "recursion_left()\n--\n\nHow many frames deeper the program may go."},
    {"untouched", FASTCALL_KEYWORDS(frame_untouched), "Call a function in mode OFF."},
    {"bind", FASTCALL(frame_bind),
     "bind(func, args, kwargs, /)\n--\n\n"
     "The values of a Python function's parameters, in the order of its locals, without running it."},
    {"set_interceptor", frame_set_interceptor, METH_O,
     "set_interceptor(interceptor, /)\n--\n\n"
     "Set what this thread calls in place of an INTERPRET or REFUSE frame; returns the old one."},
    {"set_callbacks", FASTCALL(frame_set_callbacks),
     "set_callbacks(decide, missed, /)\n--\n\n"
     "Set what decides about a code object and what is called when no entry of a LOOK frame holds."},
    {"set_debuggers", FASTCALL(frame_set_debuggers),
     "set_debuggers(callback, own_files, /)\n--\n\n"
     "Set what says whether what sys.settrace() was given is a debugger, and what it is to pass over."},
    {"shown", FASTCALL_KEYWORDS(frame_shown),
     "shown(fn, /, *args, **kwargs)\n--\n\nCall a function of the program's, which debuggers can step through."},
    {"set_dispatch", frame_set_dispatch, METH_O,
     "set_dispatch(capsule, /)\n--\n\nSet the C function that tries the entries of a code object."},
    {"set_eager", frame_set_eager, METH_O,
     "set_eager(eager, /)\n--\n\nWhether call_in() calls functions as they are, in all threads."},
    {"get_cache", FASTCALL(frame_get_cache),
     "get_cache(code, context=None, /)\n--\n\nThe cache kept with a code object, for a context."},
    {"set_cache", FASTCALL(frame_set_cache),
     "set_cache(code, cache, context=None, /)\n--\n\n"
     "Keep a cache with a code object, as long as that lives; with a context, which keeps the cache itself,\n"
     "as long as that lives too."},
    {"get_decision", frame_get_decision, METH_O,
     "get_decision(code, /)\n--\n\nThe (run, intercept) decisions about a code object."},
    {"set_decision", frame_set_decision, METH_VARARGS,
     "set_decision(code, run, intercept, /)\n--\n\nDecide about a code object."},
    {"clear", frame_clear, METH_O, "clear(code, /)\n--\n\nForget decisions and cache of a code object."},
    {"observed", FASTCALL(frame_observed),
     "observed(then, looks, /)\n--\n\n"
     "What may be said of a frame without an entry: it is to run as it is, and then(exception or None) is told what\n"
     "came of it. It may raise where the frame does not. `looks`: whether what it calls is looked at."},
    {"again", frame_again, METH_O,
     "again(then, /)\n--\n\nWhat a region returns that has done nothing: its frame is to run as it is, or to raise."},
    {"context", frame_context, METH_NOARGS, "context()\n--\n\nThe context that the thread's compiled call is in."},
    {"mode", frame_mode, METH_NOARGS, "mode()\n--\n\nThe mode of this thread."},
    {"active", frame_active, METH_NOARGS,
     "active()\n--\n\nHow many calls that need the hook are in progress."},
    {"installed", frame_installed, METH_NOARGS,
     "installed()\n--\n\nWhether the hook is the frame evaluator."},
    {"swap_handled", frame_swap_handled, METH_O,
     "swap_handled(exception, /)\n--\n\n"
     "Set the exception that this thread is handling; returns the old one."},
    {"pause_collector", frame_pause_collector, METH_NOARGS,
     "pause_collector()\n--\n\nNo garbage is collected until each pause has been ended, in whatever thread."},
    {"resume_collector", frame_resume_collector, METH_NOARGS,
     "resume_collector()\n--\n\nEnd a pause of this thread's."},
    {"poll", frame_poll, METH_NOARGS,
     "poll()\n--\n\nRun the handlers of signals that wait; what one raises is raised here."},
    {"interrupted", frame_interrupted, METH_NOARGS,
     "interrupted()\n--\n\nWhether a signal's handler has raised since the compilation began."},
    {"handling", frame_handling, METH_NOARGS,
     "handling()\n--\n\nWhether a signal's handler runs in the midst of a compilation."},
    {"shielded", FASTCALL_KEYWORDS(frame_shielded), "Call a function while signals wait."},
    {"exposed", FASTCALL_KEYWORDS(frame_exposed),
     "Call a function while signals do not wait, given the functions that are entered for their handlers."},
    {"enter_in", frame_enter_in, METH_O,
     "enter_in(context, /)\n--\n\nThis thread is in a context, which the caller keeps, until leave_in() is given the "
     "result."},
    {"leave_in", frame_leave_in, METH_O,
     "leave_in(before, /)\n--\n\nPut back what was before enter_in()."},
    {"set_redirect", frame_set_redirect, METH_O,
     "set_redirect(callback, /)\n--\n\nHave `callback(context)` say in which context call_in() calls; None: in the one "
     "that it is given."},
    {"set_torch_state", frame_set_torch_state, METH_O,
     "set_torch_state(capsule, /)\n--\n\nSet the C functions that save torch's state and put it back."},
    {"unraisable", FASTCALL(frame_unraisable),
     "unraisable(exception, object, /)\n--\n\nTell sys.unraisablehook of an exception that came of an object."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "framelift._frame",
    .m_doc = "The frame-evaluation hook.",
    .m_size = -1,
    .m_methods = methods,
};

static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"OFF", OFF},                 {"RUN", RUN},           {"INTERCEPT", INTERCEPT},
        {"UNDECIDED", RUN_UNDECIDED}, {"SKIP", SKIP},         {"SKIP_ALL", SKIP_ALL},
        {"LOOK", LOOK},               {"STEP", STEP},         {"LEAF", LEAF},
        {"THROUGH", THROUGH},         {"INTERPRET", INTERPRET}, {"REFUSE", REFUSE},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(constants); i++) {
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0) {
            return -1;
        }
    }
    return 0;
}

PyMODINIT_FUNC PyInit__frame(void)
{
    extra_index = request_code_extra_index(free_extra);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "CPython has no room left for data on code objects");
        return NULL;
    }
    if (init_version() < 0 || find_import_code() < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && (add_constants(module) < 0 || PyModule_AddType(module, &StopType) < 0 ||
                           PyModule_AddType(module, &LockType) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
