#include "capture/parts.h"

#include <map>
#include <numeric>
#include <set>

namespace cairn::capture {
namespace {

class Sets {
  public:
    explicit Sets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }
    std::size_t find(std::size_t item) {
        while (parent_[item] != item) item = parent_[item] = parent_[parent_[item]];
        return item;
    }
    void unite(std::size_t a, std::size_t b) { parent_[find(b)] = find(a); }

  private:
    std::vector<std::size_t> parent_;
};

bool ties(const schema::Object& object) {
    return !object.is<schema::File>() && !object.is<schema::Fifo>() && !object.is<schema::Terminal>();
}

}  // namespace

void make_parts(const std::vector<schema::Process>& processes, const schema::Objects& objects,
                schema::Manifest& manifest) {
    std::map<std::int64_t, const schema::Object*> by_id;
    for (const auto& object : objects.objects) by_id[object.id] = &object;

    Sets sets(processes.size());
    std::map<ProgramId, std::size_t> by_pid, by_session;
    std::map<std::int64_t, std::size_t> by_object;
    const auto tie = [&](std::size_t process, std::int64_t id) {
        const auto found = by_id.find(id);
        if (found == by_id.end() || !ties(*found->second)) return;
        const auto& object = *found->second;
        // both ends of a pipe or pty: one key
        const auto* terminal = schema::terminal_in(object.what);
        const auto key = object.pipe >= 0      ? -1000 - object.pipe * 2
                         : terminal != nullptr ? -1001 - terminal->pair * 2
                                               : id;
        const auto [first, added] = by_object.emplace(key, process);
        if (!added) sets.unite(first->second, process);
    };
    for (std::size_t i = 0; i < processes.size(); ++i) {
        by_pid[processes[i].pid] = i;
        const auto [first, added] = by_session.emplace(processes[i].sid, i);
        if (!added) sets.unite(first->second, i);
        for (const auto& descriptor : processes[i].descriptors) tie(i, descriptor.object);
        for (const auto& area : processes[i].areas) tie(i, area.object);
    }
    for (std::size_t i = 0; i < processes.size(); ++i)
        if (const auto parent = by_pid.find(processes[i].ppid); parent != by_pid.end())
            sets.unite(parent->second, i);

    std::map<std::size_t, std::int32_t> numbers;
    for (std::size_t i = 0; i < processes.size(); ++i) {
        const auto [number, added] =
            numbers.emplace(sets.find(i), static_cast<std::int32_t>(numbers.size() + 1));
        if (added) manifest.parts.push_back({number->second, manifest.host, "", {}});
        auto& part = manifest.parts[static_cast<std::size_t>(number->second - 1)];
        part.pids.push_back(processes[i].pid);
        const auto terminal = by_id.find(processes[i].terminal);
        if (part.terminal.empty() && terminal != by_id.end() && terminal->second->is<schema::Terminal>())
            part.terminal = terminal->second->path;
        for (auto& image : manifest.images)
            if (image.pid == processes[i].pid && !image.uid.empty()) image.part = number->second;
    }
}

}  // namespace cairn::capture
