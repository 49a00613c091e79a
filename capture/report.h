// What a capture tells its coordinator: docs/capture-protocol.md. Also where deadlines are kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/wire/field.h"

namespace cairn::capture {

using Clock = std::chrono::steady_clock;

class Reporter {
  public:
    // `fd`: the coordinator's SOCK_SEQPACKET end, borrowed.
    Reporter(int fd, std::chrono::milliseconds deadline)
        : fd_(fd), allowed_(deadline), deadline_(Clock::now() + deadline) {}

    void phase(const std::string& name, const std::vector<std::string>& waiting = {});
    void progress(std::uint64_t bytes, std::uint64_t total, const std::string& last);
    void note(std::string words) { notes_.push_back(std::move(words)); }
    void failed(const Error& why) const;

    // Set off at the named moments for tests (CAIRN_FAULT="phase:action", action kill, hang or fail).
    void fault_point(const std::string& name) const;

    // The time until now doesn't count: the programs ran.
    void restart_deadline() { deadline_ = Clock::now() + allowed_; }
    // The programs go on: from here on only the coordinator, which sees the progress, sets limits.
    void end_deadline() { deadline_ = Clock::time_point::max(); }
    // As long as it lives, what was done to the programs is undone: that has a time of its own, and goes on
    // whether the coordinator waits for it or not.
    class Undoing {
      public:
        explicit Undoing(Reporter& reporter)
            : reporter_(reporter), deadline_(std::exchange(reporter.deadline_, Clock::now() + longest)) {
            reporter_.undoing_ = true;
        }
        Undoing(const Undoing&) = delete;
        Undoing& operator=(const Undoing&) = delete;
        ~Undoing() {
            reporter_.undoing_ = false;
            reporter_.deadline_ = deadline_;
        }

      private:
        static constexpr auto longest = std::chrono::seconds(10);
        Reporter& reporter_;
        Clock::time_point deadline_;
    };
    [[nodiscard]] Undoing undo() { return Undoing(*this); }
    // An error when the deadline has passed or the coordinator has gone; `waiting` says for whom.
    [[nodiscard]] Result<> may_go_on(const std::function<std::string()>& waiting) const;
    // Waits for the other hosts of the computation: says what this host has to tell, returns what the
    // coordinator answers when all have come as far. common/wire/connections.h has what is said.
    template <class M>
    [[nodiscard]] Result<typename M::Answer> meet(const M& said) const {
        return wire::unpack<typename M::Answer>(TRY(pass(M::name.value, pack(said))));
    }
    [[nodiscard]] bool coordinator_gone() const;
    [[nodiscard]] const std::string& current() const { return phase_; }
    [[nodiscard]] std::vector<std::string>& notes() { return notes_; }

  private:
    template <class M>
    void say(const M& message) const;
    [[nodiscard]] Result<nlohmann::json> pass(std::string_view barrier, nlohmann::json data) const;

    int fd_;
    std::chrono::milliseconds allowed_;
    Clock::time_point deadline_;
    bool undoing_ = false;
    std::string phase_ = "start";
    std::vector<std::string> notes_;
    Clock::time_point last_progress_;
};

}  // namespace cairn::capture
