/* Debuggers that step, which are what sys.settrace() was given, pass over Framelift: in a call of a compiled function they
 * are told of no frame of Framelift's, and while a callback of ours runs of none at all. What is the program's in there,
 * such as a backend of its own, is called by shown(). Tools that count lines are told of everything. */

static PyObject *is_debugger; /* owned, or NULL: says it of what sys.settrace() was given */
static PyObject *own_files;   /* owned: a tuple of what the names of Framelift's files begin with */

static int trace_nothing(PyObject *tracer, PyFrameObject *frame, int what, PyObject *arg) { return 0; }

static int trace_others(PyObject *tracer, PyFrameObject *frame, int what, PyObject *arg)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool own = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(own_files) && !own; i++) {
        own = PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(own_files, i), 0, PY_SSIZE_T_MAX, -1) == 1;
    }
    Py_DECREF(code);
    return own ? 0 : this_thread.tracer(tracer, frame, what, arg);
}

static bool asked_whether_debugger(PyThreadState *ts, Thread *thread)
{
    if (ts->c_tracefunc == trace_others || ts->c_tracefunc == trace_nothing || is_debugger == NULL) {
        return false;
    }
    thread->tracer = ts->c_tracefunc;
    ts->c_tracefunc = trace_nothing;
    PyObject *answer = ts->c_traceobj == NULL ? NULL : PyObject_CallOneArg(is_debugger, ts->c_traceobj);
    bool found = answer == Py_True;
    if (answer == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(answer);
    ts->c_tracefunc = found ? trace_others : thread->tracer;
    return found;
}

/* Whether a debugger passes over Framelift's frames from here on. */
static inline bool pass_over(PyThreadState *ts, Thread *thread)
{
    return ts->c_tracefunc != NULL && asked_whether_debugger(ts, thread);
}

/* What the program has set meanwhile stays. */
static inline void pass_over_no_more(PyThreadState *ts, Thread *thread)
{
    if (ts->c_tracefunc == trace_others) {
        ts->c_tracefunc = thread->tracer;
    }
}

/* Whether one that passes over them is told of nothing from here on. */
static inline bool hide_frames(PyThreadState *ts)
{
    bool told = ts->c_tracefunc == trace_others;
    if (told) {
        ts->c_tracefunc = trace_nothing;
    }
    return told;
}

static inline void show_frames(PyThreadState *ts)
{
    if (ts->c_tracefunc == trace_nothing) {
        ts->c_tracefunc = trace_others;
    }
}

static PyObject *frame_shown(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "shown() takes a callable");
        return NULL;
    }
    PyThreadState *ts = PyThreadState_Get();
    bool hidden = ts->c_tracefunc == trace_nothing;
    show_frames(ts);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, nargs - 1, kwnames);
    if (hidden) {
        hide_frames(ts);
    }
    return result;
}

static PyObject *frame_set_debuggers(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("set_debuggers", nargs, 2, 2)) {
        return NULL;
    }
    if (!PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "set_debuggers() takes a tuple of names of files");
        return NULL;
    }
    Py_XSETREF(own_files, Py_NewRef(args[1]));
    Py_XSETREF(is_debugger, Py_NewRef(args[0]));
    Py_RETURN_NONE;
}
