// cairn's own commands, as children of the debugger: sessions of its own, in which processes are launched,
// saved and brought back.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

namespace cairn::mpi::debug {

// Its exit code, or 128 and a signal. It has ended by now, or was killed.
[[nodiscard]] int code_of(pid_t pid);
void end_tool(pid_t pid);
// Not waited for yet.
[[nodiscard]] bool has_ended(pid_t pid);

// Processes whose parent ends become children of this one meanwhile.
class Adopting {
  public:
    Adopting();
    ~Adopting();
    Adopting(const Adopting&) = delete;
    Adopting& operator=(const Adopting&) = delete;

  private:
    int before_ = 0;
};

class CairnTools {
  public:
    // `scratch`: a folder of this debugger's, for what they say and for the sessions' sockets.
    explicit CairnTools(std::string scratch) : scratch_(std::move(scratch)) {}

    // What a program is started with beside its words. Files are made anew.
    struct With {
        std::string output, errors;  // paths
        std::vector<std::pair<std::string, std::string>> environment;
    };
    // The first word is one of cairn's programs. It ends with the debugger, and isn't interrupted at the
    // terminal.
    [[nodiscard]] Result<pid_t> start(const std::vector<std::string>& words, const With& with) const;
    // All that it says goes to `log`, a name.
    [[nodiscard]] Result<pid_t> start(const std::vector<std::string>& words, const std::string& log) const;
    // The last line that isn't a note.
    [[nodiscard]] std::string said_in(const std::string& log) const;

    // A variable of the environment: whoever is in one of these sessions has it.
    [[nodiscard]] std::pair<std::string, std::string> folder_of_sessions() const;
    // It answers by then. Its own checkpoints, of which none is taken without being asked for, go to
    // `folder`.
    [[nodiscard]] Result<pid_t> coordinator(const std::string& session, const std::string& folder) const;

    [[nodiscard]] const std::string& scratch() const { return scratch_; }

  private:
    std::string scratch_;
};

}  // namespace cairn::mpi::debug
