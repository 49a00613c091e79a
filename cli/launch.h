// `cairn launch`: becomes a program that belongs to a session.
#pragma once

namespace cairn::cli {

// argv[0] is the verb. Returns an exit code only if the program could not be started.
[[nodiscard]] int launch(int argc, char** argv);

}  // namespace cairn::cli
