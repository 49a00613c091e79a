// Where versions of CPython keep what is read of them: offsets within its structs, in bytes, on x86-64.
#pragma once

#include <cstdint>

namespace cairn::python {

struct Layout {
    unsigned minor;
    // _PyRuntimeState, PyInterpreterState. From 3.13 on the runtime says itself where they are
    // (_Py_DebugOffsets of pycore_runtime.h), since they lie behind what may grow.
    std::uint64_t interpreters, threads, next_interpreter;
    // PyThreadState: next, thread_id, and `frame`, `cframe` or `current_frame`.
    std::uint64_t next_thread, thread_id, current;
    // _PyCFrame; until 3.10, and from 3.13 on, `current` is the frame itself.
    bool has_cframe;
    std::uint64_t cframe_current;
    // PyFrameObject, from 3.11 on _PyInterpreterFrame. `instruction` is f_lasti, then an address.
    std::uint64_t code, previous, instruction, owner, is_entry;
    // PyCodeObject. `name` is co_name, from 3.11 on co_qualname. `instructions`: from 3.11 on.
    std::uint64_t file, name, first_line, line_table, instructions;
    // Where the characters of a string begin: of PyASCIIObject and of PyCompactUnicodeObject.
    std::uint64_t ascii, compact;
};

// Null: a version that isn't known.
[[nodiscard]] const Layout* layout_of(unsigned minor);

}  // namespace cairn::python
