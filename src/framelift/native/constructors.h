/* Calls of classes in CPython 3.13. Part of frame.c.
 *
 * A call of a class that CPython has specialised enters `__init__` without asking the evaluator, where all other
 * specialised calls ask whether there is another one than its own. So before a frame runs whose calls are to be seen,
 * such calls are made ordinary ones, and stay so. */

#if PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000

#define NEVER 0xFFFF /* a counter that stays as it is: the instruction is not specialised again */

/* Where a code object has calls, in units. */
typedef struct {
    bool found;
    int count;
    int *at;
} Calls;

static void free_calls(Calls *calls)
{
    PyMem_Free(calls->at);
    calls->at = NULL;
}

/* In what co_code gives, caches are zero. */
static int find_calls(PyCodeObject *code, Calls *calls)
{
    PyObject *units = PyCode_GetCode(code);
    if (units == NULL) {
        return -1;
    }
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(units);
    int size = (int)(PyBytes_GET_SIZE(units) / 2), count = 0;
    for (int i = 0; i < size; i++) {
        count += bytes[2 * i] == CALL;
    }
    int *at = count == 0 ? NULL : PyMem_Calloc(count, sizeof(int));
    if (count != 0 && at == NULL) {
        Py_DECREF(units);
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0, n = 0; i < size; i++) {
        if (bytes[2 * i] == CALL) {
            at[n++] = i;
        }
    }
    Py_DECREF(units);
    *calls = (Calls){true, count, at};
    return 0;
}

/* Without memory, calls stay as they are. */
static inline void show_constructors(PyCodeObject *code, Calls *calls)
{
    if (!calls->found && find_calls(code, calls) < 0) {
        PyErr_Clear();
        return;
    }
    _Py_CODEUNIT *units = _PyCode_CODE(code);
    for (int i = 0; i < calls->count; i++) {
        _Py_CODEUNIT *call = units + calls->at[i];
        if (call->op.code == CALL_ALLOC_AND_ENTER_INIT) {
            call->op.code = CALL;
            call[1].cache = NEVER;
        }
    }
}

#else

typedef struct {
    int unused;
} Calls;

static inline void free_calls(Calls *calls) { (void)calls; }
static inline void show_constructors(PyCodeObject *code, Calls *calls) { (void)code, (void)calls; }

#endif
