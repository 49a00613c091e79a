// What the processes of a forest in the making share: a page or two of anonymous memory with a futex for each
// barrier.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/error.h"
#include "restart/forest/plan.h"

namespace cairn::restart::forest {

enum class Stage : std::uint32_t {
    unborn,
    awaited,   // its parent is at the fork; the child may be there and not have run yet
    building,  // takes its steps
    arrived,   // has called become
    leaving,   // exits, as planned
    given_up,  // exits because of a failure, its own or another's
};

struct alignas(8) Entry {
    std::atomic<KernelId> pid;    // as the tool calls it
    std::atomic<KernelId> inner;  // in a pid namespace of its own, as it calls itself
    std::atomic<Stage> stage;
    std::atomic<std::uint32_t> step;  // index
    std::atomic<std::uint64_t>
        started;  // arrived: start time as /proc tells it to the tool; 0 not looked at yet
};

enum class Mishap : std::uint32_t { call, status, returned };

// What went wrong first. Written once, by whoever takes it.
struct Failure {
    std::atomic<std::uint32_t> taken, complete;
    std::int32_t process, step;
    Mishap mishap;
    std::int32_t number;  // call: errno; status: the wait status that was seen
};

class Board {
  public:
    static Result<std::shared_ptr<Board>> create(std::size_t processes, std::size_t barriers);
    ~Board();
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    [[nodiscard]] Entry& entry(int process) { return entries_[process]; }
    [[nodiscard]] std::size_t processes() const { return processes_; }
    [[nodiscard]] Failure& failure() { return head_->failure; }

    void signal(int barrier, int needed);
    [[nodiscard]] bool reached(int barrier, int needed) const;
    // Sleeps until the barrier has changed from below `needed`, all is stopped, or the time is over.
    void sleep_on(int barrier, int needed, int milliseconds);

    // Tells the tool that a stage has changed.
    void pulse();
    [[nodiscard]] std::uint32_t pulses() const { return head_->pulses.load(); }
    void sleep_on_pulse(std::uint32_t seen, int milliseconds);

    void fail(int process, int step, Mishap mishap, int number);
    // Everybody gives up.
    void stop();
    [[nodiscard]] bool stopped() const { return head_->stopped.load() != 0; }

    // One at a time asks clerks and forks. False: all is stopped.
    [[nodiscard]] bool take_turn();
    void end_turn();
    // That this id is handed out next. False: all is stopped.
    [[nodiscard]] bool ask(int clerk, std::int32_t id);
    // The id that a clerk is asked for, 0 if it isn't; and the answer.
    [[nodiscard]] std::int32_t asked(int clerk) const;
    void answer();

    std::atomic<std::uint32_t>& cores_lost() {
        return head_->cores_lost;
    }  // zombies that should have dumped core

  private:
    struct alignas(64) Head {
        std::atomic<std::uint32_t> pulses, stopped, cores_lost;
        std::atomic<std::uint32_t> turn;
        std::atomic<std::int32_t> clerk, wanted;  // wanted: 0 when it is answered
        Failure failure;
    };
    Board(void* memory, std::size_t size, std::size_t processes, std::size_t barriers);

    void* memory_;
    std::size_t size_, processes_, barrier_count_;
    Head* head_;
    Entry* entries_;
    std::atomic<std::uint32_t>* barriers_;
};

}  // namespace cairn::restart::forest
