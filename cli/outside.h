// `cairn outside`: a program that a program of the session starts and that is no part of the computation.
#pragma once

namespace cairn::cli {

// Becomes the program; returns an exit code, as shells do, if that can't be.
int outside(int argc, char** argv);

}  // namespace cairn::cli
