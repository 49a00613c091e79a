// The descriptions that a restart has opened, until the processes have them: in the tool, where the limit
// of descriptors allows that, else in keepers: processes that have a part of them each, at the numbers that
// they had in the tool, and do nothing else. From there they are taken one by one (pidfd_getfd(2)), by the
// tool for the moment and by each process for good (docs/decisions/0015-descriptors.md).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/ids.h"

namespace cairn::restart {

// A descriptor for the moment: of the one who holds it, or fetched and closed again. -1: there is none.
class Lent {
  public:
    Lent() = default;
    explicit Lent(int held) : number_(held) {}
    explicit Lent(Fd fetched) : number_(fetched.get()), fetched_(std::move(fetched)) {}
    [[nodiscard]] int get() const { return number_; }
    [[nodiscard]] explicit operator bool() const { return number_ >= 0; }

  private:
    int number_ = -1;
    Fd fetched_;
};

// A descriptor of another process.
struct Kept {
    pid_t keeper = 0;
    int number = -1;
};

// Fetches from keepers, in whatever process: the last keeper's pidfd stays open.
class Fetcher {
  public:
    // `floor`: no descriptor of its own is below.
    explicit Fetcher(int floor) : floor_(floor) {}
    // Close-on-exec. Errors name the keeper; it may have been killed.
    [[nodiscard]] Result<Fd> fetch(const Kept& kept);

  private:
    int floor_;
    pid_t keeper_ = 0;
    Fd pidfd_;
};

class Holding {
  public:
    // All in this process, at or above `floor`.
    explicit Holding(int floor) : floor_(floor) {}
    // At most so many in this process, the others in keepers, none of which has one of these ids.
    Holding(std::size_t at_most, std::set<KernelId> avoid);
    Holding(Holding&&) noexcept = default;
    Holding& operator=(Holding&&) noexcept;
    ~Holding();  // closes all: the keepers are gone when it returns

    [[nodiscard]] bool uses_keepers() const { return at_most_ != 0; }
    // Duplicates `fd`, without close-on-exec. Errors: F_DUPFD's.
    [[nodiscard]] Result<> put(std::int64_t id, int fd);
    [[nodiscard]] bool contains(std::int64_t id) const { return here_.contains(id) || kept_.contains(id); }
    // In this process; -1 if it isn't held, or by a keeper.
    [[nodiscard]] int here(std::int64_t id) const;
    [[nodiscard]] std::optional<Kept> kept(std::int64_t id) const;
    // Nothing if it isn't held.
    [[nodiscard]] Result<Lent> lend(std::int64_t id) const;

    // From now on keepers may be made. Until then what has been put stays here, and can be put again.
    void open_doors() { doors_open_ = true; }
    // What is put from now on stays here.
    void close_doors() { doors_open_ = false; }
    // Everything that is here goes to a keeper. Without keepers: nothing happens.
    [[nodiscard]] Result<> hand_over();
    // All others are closed; the keepers end.
    [[nodiscard]] Result<> keep_only(const std::function<bool(std::int64_t id)>& wanted);

  private:
    [[nodiscard]] Result<> start_keeper();
    void end_keepers();
    int floor_ = 0;
    std::size_t at_most_ = 0;
    std::set<KernelId> avoid_;
    bool doors_open_ = false;
    std::map<std::int64_t, Fd> here_;
    std::map<std::int64_t, Kept> kept_;
    std::vector<std::pair<pid_t, Fd>> keepers_;  // and a pidfd of each
};

}  // namespace cairn::restart
