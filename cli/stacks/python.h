// The functions of Python in a stack: each stands before the interpreter's C function that runs it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cli/stacks/unwind.h"
#include "common/python/frames.h"

namespace cairn::stacks {

// By the name of a file.
[[nodiscard]] bool is_python(const std::string& path);
// Of the first module that is a known CPython and isn't stripped of the symbols that extension modules need.
[[nodiscard]] std::optional<python::Interpreter> find_python(std::span<const Module> modules);

// Puts into each thread's frames what the subject says that it has in Python.
void add_python(const Subject& subject, std::vector<Unwound>& stacks);

}  // namespace cairn::stacks
