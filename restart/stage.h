// What the tool and the processes of the forest share while these wait to be entered: one place for each.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::restart {

class Stage {
  public:
    [[nodiscard]] static Result<Stage> create(std::size_t count);
    Stage(Stage&& other) noexcept;
    Stage& operator=(Stage&&) = delete;
    ~Stage();

    // In the tool: the process is seized and may exec.
    void release(std::size_t index);
    // In the process. Returns when released; ends the process when the tool has died.
    void await(std::size_t index) const;
    // In the process: why it can't exec. The tool reads it when the process has ended.
    void report(std::size_t index, const std::string& why);
    [[nodiscard]] std::string reported(std::size_t index) const;

  private:
    struct Place {
        std::atomic<std::uint32_t> released;
        char why[1020];
    };
    explicit Stage(std::span<Place> places) : places_(places) {}
    std::span<Place> places_;
    Fd tool_;  // pidfd of it
};

}  // namespace cairn::restart
