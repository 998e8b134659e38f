/* Signals while Framelift's own code runs. Part of frame.c.
 *
 * CPython runs the program's signal handlers between two instructions of whatever Python code the main thread
 * is in, and what a handler raises (KeyboardInterrupt, a time limit) comes out of there. In the middle of a trace
 * that would be anywhere in Framelift's or torch's code: a mode just entered would stay, and code that handles
 * errors would take the exception for one of its own.
 *
 * So while Framelift works for a frame (a Shield, one for each compilation), signals wait. poll() runs their
 * handlers, at places in the interpreter where the program itself could be interrupted. Handlers run as plain code
 * in the program's state of torch, not the trace's. What one raises ends the trace, is kept by the shield
 * whatever becomes of it on the way out, and is raised by the frame itself, as if no trace had been begun.
 *
 * Code that takes long, or that waits, and is not Framelift's is exposed(): backends, and locks that other
 * threads hold. There handlers run at once, and their frames are recognised by the hook (is_handler()).
 *
 * However a compilation ends, its shield puts the thread's state of torch back in C: nothing can come in between.
 * Exposed code that raises may have been interrupted in the middle of putting back a switch that all threads see,
 * so these are put back too. */

#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"

#include <time.h>

/* ---- Whether signals wait ---- */

/* CPython asks _PyRuntime which thread handles signals. It is told that none does, and a signal stays pending.
 * Elsewhere this shows only in that signal.signal() can't be called. */
static unsigned long signals_thread; /* the thread whose signals wait; 0: none's do */

static inline bool signals_wait(void)
{
    return signals_thread != 0 && signals_thread == PyThread_get_thread_ident();
}

/* Whether they did not wait before. */
static inline bool hold_signals(void)
{
    unsigned long thread = PyThread_get_thread_ident();
    if (thread != _PyRuntime.main_thread || PyInterpreterState_Get() != PyInterpreterState_Main()) {
        return false;
    }
    signals_thread = thread;
    _PyRuntime.main_thread = 0;
    return true;
}

#if PY_VERSION_HEX >= 0x030D0000

static inline bool signal_is_pending(void) { return _Py_atomic_load_int_relaxed(&_PyRuntime.signals.is_tripped) != 0; }

/* A thread that may not handle them forgets that there are signals, and calls that wait. */
static inline void look_again(void)
{
    uintptr_t waiting = signal_is_pending() ? _PY_SIGNALS_PENDING_BIT : 0;
    if (_Py_atomic_load_int32_relaxed(&_PyRuntime.ceval.pending_mainthread.npending) != 0) {
        waiting |= _PY_CALLS_TO_DO_BIT;
    }
    if (waiting != 0) {
        _Py_set_eval_breaker_bit(PyThreadState_Get(), waiting);
    }
}

#else

static inline bool signal_is_pending(void)
{
    return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0;
}

static inline void look_again(void)
{
    if (signal_is_pending()) {
        _Py_atomic_store_relaxed(&PyInterpreterState_Get()->ceval.eval_breaker, 1);
    }
}

#endif

/* A signal that came meanwhile is handled by the next instruction that looks for one. */
static inline void let_signals_through(void)
{
    _PyRuntime.main_thread = signals_thread;
    signals_thread = 0;
    look_again();
}

/* ---- Pauses of the collector ---- */

/* It is one for all threads, so each counts its pauses: who looks meanwhile, or ends later, finds what the program
 * has set and not what a trace in another thread has. */
static int pauses;          /* of all threads */
static int paused_collects; /* what is put back when the last of them ends */

static int program_collects(void) { return pauses > 0 ? paused_collects : PyGC_IsEnabled(); }

static void set_program_collects(int collects)
{
    if (pauses > 0) {
        paused_collects = collects;
    } else {
        collects ? PyGC_Enable() : PyGC_Disable();
    }
}

static void set_pauses(Thread *thread, int count)
{
    int before = pauses;
    pauses += count - thread->pauses;
    thread->pauses = count;
    if (before == 0 && pauses > 0) {
        paused_collects = PyGC_Disable();
    } else if (before > 0 && pauses == 0 && paused_collects) {
        PyGC_Enable();
    }
}

static PyObject *frame_pause_collector(PyObject *module, PyObject *unused)
{
    set_pauses(&this_thread, this_thread.pauses + 1);
    Py_RETURN_NONE;
}

static PyObject *frame_resume_collector(PyObject *module, PyObject *unused)
{
    if (this_thread.pauses == 0) {
        PyErr_SetString(PyExc_RuntimeError, "this thread has no pause of the collector to end");
        return NULL;
    }
    set_pauses(&this_thread, this_thread.pauses - 1);
    Py_RETURN_NONE;
}

/* ---- What is put back ---- */

/* What saves a part of torch's state and puts it back; `_guards` has these. */
typedef struct {
    void *(*save)(void); /* NULL: no memory */
    void (*put)(const void *saved);
    void (*drop)(void *saved);
} StateFunctions;

enum Whose { THREAD, PROCESS };

#define TORCH_STATE_CAPSULE "framelift._guards.torch_state"

static const StateFunctions *torch_state; /* what the capsule holds: two, or NULL */
static PyObject *torch_state_capsule;     /* owned, or NULL */

typedef struct {
    enum Whose whose;
    void *torch;  /* or NULL */
    int collector; /* a thread's: its pauses; the process's: whether the program lets garbage be collected */
} Saved;

#define STATE_ROOM 50 /* C functions that are called for it count as frames, however deep the program is */

/* An exception that is pending stays so, here and in put_state(). */
static Saved save_state(enum Whose whose)
{
    Saved saved = {whose, NULL, whose == THREAD ? this_thread.pauses : program_collects()};
    if (torch_state != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyThreadState *ts = PyThreadState_Get();
        ts->recursion_left += STATE_ROOM;
        saved.torch = torch_state[whose].save();
        ts->recursion_left -= STATE_ROOM;
        PyErr_Restore(type, value, traceback);
    }
    return saved;
}

static void put_state(const Saved *saved)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (saved->torch != NULL) {
        PyThreadState *ts = PyThreadState_Get();
        ts->recursion_left += STATE_ROOM;
        torch_state[saved->whose].put(saved->torch);
        ts->recursion_left -= STATE_ROOM;
    }
    if (saved->whose == THREAD) {
        set_pauses(&this_thread, saved->collector);
    } else {
        set_program_collects(saved->collector);
    }
    PyErr_Restore(type, value, traceback);
}

static void drop_state(Saved *saved)
{
    if (saved->torch != NULL) {
        torch_state[saved->whose].drop(saved->torch);
        saved->torch = NULL;
    }
}

/* ---- Exceptions of handlers ---- */

/* With what it was like when the handler was left: who catches it on its way through our code, or a backend's,
 * may change it. All are owned. */
typedef struct {
    PyObject *value; /* NULL: none */
    PyObject *traceback, *args, *context, *cause; /* or NULL */
    char suppress_context;
} Raised;

/* Of an exception, of which the reference is stolen, as it is now. */
static Raised kept_raised(PyObject *error, PyObject *traceback)
{
    PyBaseExceptionObject *found = (PyBaseExceptionObject *)error;
    return (Raised){error, Py_XNewRef(traceback), Py_XNewRef(found->args), Py_XNewRef(found->context),
                    Py_XNewRef(found->cause), found->suppress_context};
}

static Raised copy_raised(const Raised *kept)
{
    return (Raised){Py_XNewRef(kept->value),   Py_XNewRef(kept->traceback), Py_XNewRef(kept->args),
                    Py_XNewRef(kept->context), Py_XNewRef(kept->cause),     kept->suppress_context};
}

static void drop_raised(Raised *kept)
{
    Raised old = *kept;
    *kept = (Raised){NULL};
    Py_XDECREF(old.value);
    Py_XDECREF(old.traceback);
    Py_XDECREF(old.args);
    Py_XDECREF(old.context);
    Py_XDECREF(old.cause);
}

/* The exception that is pending stays so. */
static void keep_pending(Raised *kept)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    drop_raised(kept);
    *kept = kept_raised(Py_NewRef(value), traceback);
    PyErr_Restore(type, value, traceback);
}

static void raise_kept(Raised *kept)
{
    PyBaseExceptionObject *error = (PyBaseExceptionObject *)kept->value;
    Py_XSETREF(error->args, Py_XNewRef(kept->args));
    Py_XSETREF(error->context, Py_XNewRef(kept->context));
    Py_XSETREF(error->cause, Py_XNewRef(kept->cause));
    error->suppress_context = kept->suppress_context;
    Py_XSETREF(error->traceback, Py_XNewRef(kept->traceback));
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), Py_NewRef((PyObject *)error), Py_XNewRef(kept->traceback));
    drop_raised(kept);
}

/* ---- Shields ---- */

typedef struct Shield {
    struct Shield *outer;
    Saved saved; /* the program's state */
    Raised raised;
    bool holds; /* whether signals wait on its account */
} Shield;

static Shield *shield;    /* the innermost of the main thread */
static PyObject *exposed; /* borrowed: a tuple of the handlers' functions, while code is exposed */
static double waiting_since;

#define PATIENCE 0.5 /* seconds that a signal waits for poll() */

static double monotonic_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What is in force of a thread's while handlers run, and is put back afterwards. */
typedef struct {
    enum Mode mode;
    PyObject *binding, *handed;
    PyObject *exposed;
    Saved state;
} Aside;

static Aside begin_handling(Thread *thread)
{
    Aside aside = {thread->mode, thread->binding, thread->handed, exposed, {THREAD, NULL, 0}};
    thread->mode = OFF;
    thread->binding = thread->handed = NULL;
    thread->handling++;
    exposed = NULL;
    if (shield != NULL) {
        aside.state = save_state(THREAD);
        put_state(&shield->saved);
    }
    return aside;
}

/* What the handler has set is the program's from now on. */
static void end_handling(Thread *thread, Aside *aside)
{
    if (PyErr_Occurred() && shield != NULL) {
        keep_pending(&shield->raised);
    }
    if (shield != NULL) {
        drop_state(&shield->saved);
        shield->saved = save_state(THREAD);
        put_state(&aside->state);
        drop_state(&aside->state);
    }
    exposed = aside->exposed;
    thread->handling--;
    thread->mode = aside->mode;
    thread->binding = aside->binding;
    thread->handed = aside->handed;
    waiting_since = 0;
}

/* Runs the handlers of pending signals. -1: one of them has raised. */
static int run_handlers(Thread *thread)
{
    Aside aside = begin_handling(thread);
    bool waited = signals_wait();
    if (waited) {
        let_signals_through();
    }
    int failed = Py_MakePendingCalls();
    if (waited) {
        hold_signals();
    }
    end_handling(thread, &aside);
    return failed;
}

/* Where the program could be interrupted: the interpreter is between two instructions of it. */
static int poll(Thread *thread)
{
    if (!signals_wait()) {
        return 0;
    }
    if (shield != NULL && shield->raised.value != NULL) { /* which somebody has caught */
        Raised again = copy_raised(&shield->raised);
        raise_kept(&again);
        return -1;
    }
    return signal_is_pending() ? run_handlers(thread) : 0;
}

/* A Python function is entered. While signals wait: one may have waited long enough. While code is exposed: what
 * is handled here is known to be a handler's, even if that is a C function. */
static int poll_on_entry(Thread *thread)
{
    if (!signal_is_pending() || thread->importing) {
        return 0;
    }
    if (!signals_wait()) {
        bool mine = exposed != NULL && PyThread_get_thread_ident() == _PyRuntime.main_thread;
        return mine ? run_handlers(thread) : 0;
    }
    double now = monotonic_seconds();
    if (waiting_since == 0) {
        waiting_since = now;
    }
    return now - waiting_since > PATIENCE ? run_handlers(thread) : 0;
}

static void raise_shield(Shield *made)
{
    made->raised = (Raised){NULL};
    made->saved = save_state(THREAD);
    made->holds = hold_signals();
    bool mine = made->holds || signals_wait();
    made->outer = mine ? shield : NULL;
    if (mine) {
        shield = made;
        waiting_since = 0;
    }
}

/* The compilation is over, and gave this, or raised. NULL, and in `raised` is something: so did a handler. */
static PyObject *lower_shield(Thread *thread, Shield *made, PyObject *result)
{
    put_state(&made->saved);
    if (shield == made) {
        if (result == NULL && made->raised.value == NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
            /* of the default handler, which has no frame that would be recognised */
            keep_pending(&made->raised);
            Py_CLEAR(made->raised.traceback);
        }
        if (made->raised.value == NULL && made->holds && signal_is_pending()) {
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            run_handlers(thread);
            PyErr_Restore(type, value, traceback); /* in the place of what a handler has raised, which is kept */
        }
        shield = made->outer;
        if (made->raised.value != NULL) {
            Py_CLEAR(result);
            PyErr_Clear();
            if (made->outer != NULL) {
                drop_raised(&made->outer->raised);
                made->outer->raised = copy_raised(&made->raised);
            }
        }
        if (made->holds) {
            let_signals_through();
        }
    }
    drop_state(&made->saved);
    return result;
}

/* ---- Raising in a frame ---- */

static Raised to_raise;

static int raise_now(void *unused)
{
    if (to_raise.value == NULL) {
        return 0;
    }
    raise_kept(&to_raise);
    return -1;
}

/* The next instruction that looks for signals raises what a handler has raised. */
static void raise_soon(Raised *raised)
{
    to_raise = *raised;
    *raised = (Raised){NULL};
    Py_AddPendingCall(raise_now, NULL);
}

/* If no instruction has: the frame's result, which is stolen, is not to be. */
static PyObject *raise_at_last(PyObject *result)
{
    if (to_raise.value == NULL) {
        return result;
    }
    Py_XDECREF(result);
    raise_kept(&to_raise);
    return NULL;
}

/* ---- The frames of handlers ---- */

static bool is_handler(PyObject *function)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(exposed); i++) {
        if (PyTuple_GET_ITEM(exposed, i) == function) {
            return true;
        }
    }
    return false;
}

/* A function that a signal's handler is, or calls first, is entered while code is exposed. */
static inline bool enters_handler(Frame *frame)
{
    return exposed != NULL && PyThread_get_thread_ident() == _PyRuntime.main_thread &&
           is_handler(frame_function(frame));
}

/* ---- Imports ---- */

/* Compilers import much of torch when they are first used, and what is imported half can't be imported again: it
 * registers operators. So signals wait for the end of imports, in exposed code too. */
static PyCodeObject *import_code; /* owned: that of importlib's _find_and_load() */

static int find_import_code(void)
{
    PyObject *imports = PyImport_ImportModule("_frozen_importlib");
    PyObject *function = imports == NULL ? NULL : PyObject_GetAttrString(imports, "_find_and_load");
    Py_XDECREF(imports);
    if (function == NULL || !PyFunction_Check(function)) {
        Py_XDECREF(function);
        return -1;
    }
    import_code = (PyCodeObject *)Py_NewRef(PyFunction_GET_CODE(function));
    Py_DECREF(function);
    return 0;
}

static PyObject *run_import(PyThreadState *ts, Frame *frame, Thread *thread)
{
    bool holds = hold_signals();
    thread->importing++;
    PyObject *result = run_frame_untouched(ts, frame, thread);
    thread->importing--;
    if (holds) {
        let_signals_through();
    }
    return result;
}

/* ---- Python functions ---- */

static PyObject *frame_poll(PyObject *module, PyObject *unused)
{
    if (poll(&this_thread) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *frame_handling(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(this_thread.handling > 0);
}

static PyObject *frame_interrupted(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(signals_wait() && shield != NULL && shield->raised.value != NULL);
}

/* With None for the handlers' functions: no compilation is interrupted, and nothing is put back. */
static PyObject *frame_exposed(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 2 || !(PyTuple_Check(args[0]) || Py_IsNone(args[0]))) {
        PyErr_SetString(PyExc_TypeError, "expected a tuple of functions, or None, and a function to call");
        return NULL;
    }
    bool waited = signals_wait();
    if (waited && poll(&this_thread) < 0) {
        return NULL;
    }
    if (!waited) {
        return PyObject_Vectorcall(args[1], args + 2, nargs - 2, kwnames);
    }
    PyObject *outer = exposed;
    Saved before = {PROCESS, NULL, program_collects()};
    if (!Py_IsNone(args[0])) {
        before = save_state(PROCESS);
        exposed = args[0];
    }
    let_signals_through();
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, nargs - 2, kwnames);
    hold_signals();
    exposed = outer;
    if (result == NULL) {
        put_state(&before);
    }
    drop_state(&before);
    return result;
}

static PyObject *frame_shielded(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "expected a function to call as the first argument");
        return NULL;
    }
    bool holds = hold_signals();
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, nargs - 1, kwnames);
    if (holds) {
        let_signals_through();
    }
    return result;
}

static PyObject *frame_set_torch_state(PyObject *module, PyObject *capsule)
{
    void *functions = NULL;
    if (!Py_IsNone(capsule)) {
        functions = PyCapsule_GetPointer(capsule, TORCH_STATE_CAPSULE);
        if (functions == NULL) {
            return NULL;
        }
    }
    torch_state = functions;
    Py_XSETREF(torch_state_capsule, Py_IsNone(capsule) ? NULL : Py_NewRef(capsule));
    Py_RETURN_NONE;
}

/* ---- Locks ---- */

/* A re-entrant lock for `with` statements. Signals are handled while it waits for another thread. As it is entered
 * and left in C, it is never left locked. */
typedef struct {
    PyObject_HEAD
    PyObject *lock; /* owned: a threading.RLock */
} Lock;

static PyObject *lock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (!PyArg_ParseTuple(args, ":Lock") || (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0)) {
        return NULL;
    }
    PyObject *threads = PyImport_ImportModule("_thread");
    PyObject *made = threads == NULL ? NULL : PyObject_CallMethod(threads, "RLock", NULL);
    Py_XDECREF(threads);
    Lock *self = made == NULL ? NULL : (Lock *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(made);
        return NULL;
    }
    self->lock = made;
    return (PyObject *)self;
}

static void lock_dealloc(Lock *self)
{
    Py_XDECREF(self->lock);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *lock_enter(Lock *self, PyObject *unused)
{
    PyObject *entered = PyObject_CallMethod(self->lock, "acquire", "O", Py_False);
    if (entered == Py_False) {
        Py_DECREF(entered);
        Thread *thread = &this_thread;
        bool waited = signals_wait();
        Aside aside;
        if (waited) {
            aside = begin_handling(thread);
            let_signals_through();
        }
        entered = PyObject_CallMethod(self->lock, "acquire", NULL);
        if (waited) {
            hold_signals();
            end_handling(thread, &aside);
        }
    }
    return entered;
}

static PyObject *lock_exit(Lock *self, PyObject *const *args, Py_ssize_t nargs)
{
    return PyObject_CallMethod(self->lock, "release", NULL);
}

static PyMethodDef lock_methods[] = {
    {"__enter__", (PyCFunction)(void (*)(void))lock_enter, METH_NOARGS, "Waits until no other thread has it."},
    {"__exit__", (PyCFunction)(void (*)(void))lock_exit, METH_FASTCALL, "Gives it back."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject LockType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift._frame.Lock",
    .tp_basicsize = sizeof(Lock),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Lock()\n--\n\nA re-entrant lock for `with` statements.",
    .tp_new = lock_new,
    .tp_dealloc = (destructor)lock_dealloc,
    .tp_methods = lock_methods,
};
