// The trace of a program as it is without the checkpoints that its processes have taken: as a rank that runs
// alone makes it, so that states are counted alike.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "causality/trace.h"

namespace cairn::mpi::tool {

// Checkpoints are left out, and so is the beginning of a collective operation that ends in the same call: a
// trace with checkpoints has both so that a checkpoint can be in between (causality/computation.h). Requests
// are numbered as they are opened, without these.
class ProgramTrace final : public causality::TraceSource {
  public:
    // `calls`: of each process, how many of its calls the trace is to have at most.
    ProgramTrace(std::unique_ptr<causality::TraceSource> source, std::vector<std::uint64_t> calls);

    [[nodiscard]] causality::Process processes() const override { return source_->processes(); }
    [[nodiscard]] Result<bool> next(causality::Process process, causality::Event& event) override;
    [[nodiscard]] bool ended(causality::Process process) const override {
        return source_->ended(process) && !rows_[process].cut;
    }
    [[nodiscard]] const std::vector<causality::Place>& places() const override { return source_->places(); }
    [[nodiscard]] const std::vector<causality::Communicator>& communicators() const override {
        return source_->communicators();
    }
    [[nodiscard]] const std::vector<std::string>& notes() const override { return source_->notes(); }
    [[nodiscard]] bool says_all() const override { return source_->says_all(); }
    [[nodiscard]] const std::vector<std::string>& types() const override { return source_->types(); }
    [[nodiscard]] const std::vector<causality::Leak>& leaks() const override { return source_->leaks(); }

  private:
    struct Row {
        std::uint64_t calls = 0, most = 0;
        std::optional<causality::Event> ahead;
        std::vector<std::uint32_t> unused;  // requests of operations that have none in the program, ascending
        bool cut = false;
    };
    [[nodiscard]] Result<bool> next_of_program(causality::Process process, causality::Event& event);

    std::unique_ptr<causality::TraceSource> source_;
    std::vector<Row> rows_;
};

}  // namespace cairn::mpi::tool
