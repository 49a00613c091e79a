// What an ObjectSet consists of.
#pragma once

#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "resources/restore/cut.h"
#include "resources/restore/first_holder.h"
#include "resources/restore/holding.h"
#include "resources/restore/objects.h"
#include "resources/restore/shared_array.h"

namespace cairn::restart {

struct ObjectSet::State {
    Holding opened{0};
    std::map<std::int64_t, Fd> launchers;
    std::set<std::int64_t> others_terminals;
    std::map<std::int64_t, std::array<Fd, 3>> stand_ins;

    // At this number; higher ones mostly keep a copy of where output goes (`exec 3>&1`).
    [[nodiscard]] int stand_in(std::int64_t object, ProgramFd number) const {
        const auto found = stand_ins.find(object);
        if (found == stand_ins.end()) return -1;
        return found->second.at(static_cast<std::size_t>(number > ProgramFd(2) ? 1 : number.number())).get();
    }
    [[nodiscard]] const schema::Object* find(std::int64_t id) const {
        const auto found = objects.find(id);
        return found == objects.end() ? nullptr : &found->second;
    }
    // What install(), after_forest() and controlling_terminal() need of the objects.
    std::map<std::int64_t, schema::Object> objects;
    ObjectSetOptions options;
    // Where room is narrow: the number that the first of what a process needs to be rebuilt has in it.
    int needed_from = 0;
    std::vector<Cut> cuts;
    std::map<std::int64_t, Fd> refills;
    pid_t tool = ::getpid();
    // By object id: an epoll that several have is being filled; the number in the tool, and one, of what it
    // opened when the processes were there already.
    std::unique_ptr<SharedArray<bool>> claimed;
    std::unique_ptr<SharedArray<std::int32_t>> later;
    std::unique_ptr<FirstHolders> first_holders;
};

}  // namespace cairn::restart
