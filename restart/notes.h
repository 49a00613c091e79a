// What a restart has to tell besides errors.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "common/condense.h"
#include "common/printable.h"
#include "restart/tell.h"

namespace cairn::restart {

// Every pass adds to `list`; the restart prints what is new when a pass is over, and before anything is
// waited for. The same words are printed once: files are judged before anything is done, and again right
// before they are opened.
struct Notes {
    std::vector<std::string> list;

    void print(bool quiet) {
        std::vector<std::string> news;
        for (; done_ < list.size(); ++done_)
            if (printed_.insert(list[done_]).second && !quiet) news.push_back(list[done_]);
        for (const auto& note : condense(news)) tell("cairn: {}\n", printable(note));
    }

  private:
    std::size_t done_ = 0;
    std::set<std::string> printed_;
};

}  // namespace cairn::restart
