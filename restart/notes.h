// What a restart has to tell besides errors.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/condense.h"
#include "common/printable.h"
#include "restart/tell.h"

namespace cairn::restart {

// Every pass adds to `list`, and prints what is new when it is over, and before anything is waited for; if it
// fails the rest is printed at the end. The same words are printed once: files are judged before anything is
// done, and again right before they are opened.
class Notes {
  public:
    Notes(bool quiet, bool verbose) : quiet_(quiet), verbose_(verbose) {}
    Notes(const Notes&) = delete;
    Notes& operator=(const Notes&) = delete;
    ~Notes() { print(); }

    std::vector<std::string> list;

    void print() {
        std::vector<std::string> news;
        for (; done_ < list.size(); ++done_)
            if (printed_.insert(list[done_]).second && !quiet_) news.push_back(list[done_]);
        if (!verbose_) news = condense(news, "--verbose prints all");
        for (const auto& note : news) tell("cairn: {}\n", printable(note));
    }

    // A line of its own, at once.
    template <class... Args>
    void say(fmt::format_string<Args...> form, Args&&... args) const {
        if (!quiet_) tell("cairn: {}\n", fmt::format(form, std::forward<Args>(args)...));
    }

  private:
    bool quiet_, verbose_;
    std::size_t done_ = 0;
    std::set<std::string> printed_;
};

}  // namespace cairn::restart
