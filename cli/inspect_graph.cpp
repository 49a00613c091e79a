#include "cli/inspect_graph.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "cli/inspect_show.h"
#include "cli/inspect_text.h"

namespace cairn::inspect {
namespace {

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char each : text) {
        if (each == '"' || each == '\\') result += '\\';
        result += each == '\n' ? "\\n" : std::string(1, each);
    }
    return result + '"';
}

bool is_connection(const schema::Object& object) {
    return object.is<schema::Pipe>() || object.is<schema::Fifo>() || object.is<schema::UnixSocket>() ||
           object.is<schema::Tcp>();
}

bool is_socket(const schema::Object& object) {
    return object.is<schema::UnixSocket>() || object.is<schema::Tcp>();
}

bool is_shown_if_shared(const schema::Object& object) {
    return object.is<schema::Terminal>() || object.is<schema::PtyMaster>() || object.is<schema::PtySlave>() ||
           object.is<schema::Memory>() || object.is<schema::Eventfd>();
}

// An end of something, and who has it at which descriptors.
struct HeldEnd {
    const schema::Object* object = nullptr;
    std::map<std::string, std::set<int>> by;  // node of a process -> numbers
};

class Graph {
  public:
    explicit Graph(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

    std::string text() {
        text_ =
            "digraph checkpoint {\n  rankdir=LR;\n  node [shape=box, style=rounded, "
            "fontname=\"sans-serif\"];\n"
            "  edge [fontname=\"sans-serif\", fontsize=10];\n";
        for (const auto& process : checkpoint_.processes) add(process);
        for (const auto& [pipe, ends] : connections_) add_connection(pipe, ends);
        for (const auto& [key, end] : shared_)
            if (end.by.size() > 1) add_shared(fmt::format("object_{}_{}", key.first, key.second), end);
        return text_ + "}\n";
    }

  private:
    using Key = std::pair<std::int32_t, std::int64_t>;  // part, id

    static std::string node_of(const LoadedProcess& process, ProgramId pid) {
        return fmt::format("p{}_{}", process.part, pid);
    }

    void add(const LoadedProcess& each) {
        const auto& process = each.process;
        const std::string node = node_of(each, process.pid);
        const bool zombie = process.run == schema::Run::zombie;
        text_ += fmt::format("  {} [label={}{}];\n", node,
                             quoted(fmt::format("{} {}\n{}", process.pid, printable(process.name),
                                                zombie ? "zombie" : human_size(each.stored()))),
                             zombie ? ", style=dotted" : "");
        for (const auto& other : checkpoint_.processes)
            if (other.part == each.part && other.process.pid == process.ppid && &other != &each)
                text_ += fmt::format("  {} -> {} [style=bold];\n", node_of(each, process.ppid), node);
        for (const auto& descriptor : process.descriptors) {
            const auto* object = checkpoint_.object(each.part, descriptor.object);
            if (object == nullptr) continue;
            const bool is_end = is_connection(*object) && object->pipe >= 0;
            if (!is_end && !is_shown_if_shared(*object)) continue;
            HeldEnd& end = is_end ? connections_[{each.part, object->pipe}][object->id]
                                  : shared_[{each.part, object->id}];
            end.object = object;
            end.by[node].insert(descriptor.fd.number());
        }
        for (const auto& area : process.areas) {
            if (area.kind != schema::AreaKind::shared_memory) continue;
            const auto* object = checkpoint_.object(each.part, area.object);
            if (object == nullptr) continue;
            HeldEnd& end = shared_[{each.part, object->id}];
            end.object = object;
            end.by[node];
        }
    }

    static std::string numbers(const std::set<int>& all) {
        return all.empty() ? "mapped" : fmt::format("{}", fmt::join(all, ", "));
    }

    // A pipe is a node, from those who can write to those who can read; the two ends of a socket's
    // connection lead to a node between them.
    void add_connection(const Key& pipe, const std::map<std::int64_t, HeldEnd>& ends) {
        const std::string node = fmt::format("pipe_{}_{}", pipe.first, pipe.second);
        const auto& first = *ends.begin()->second.object;
        text_ += fmt::format("  {} [shape=ellipse, style=solid, label={}];\n", node,
                             quoted(fmt::format("{} {}", schema::kind_of(first), pipe.second)));
        bool outside = false;
        for (const auto& [id, end] : ends) {
            outside = outside || end.object->outside;
            const int access = end.object->flags & O_ACCMODE;
            for (const auto& [process, fds] : end.by) {
                const auto label = quoted(numbers(fds));
                if (is_socket(*end.object) || access == O_RDWR)
                    text_ += fmt::format("  {} -> {} [dir=both, label={}];\n", process, node, label);
                else if (access == O_WRONLY)
                    text_ += fmt::format("  {} -> {} [label={}];\n", process, node, label);
                else
                    text_ += fmt::format("  {} -> {} [label={}];\n", node, process, label);
            }
        }
        if (!outside) return;
        text_ += "  outside [shape=plaintext];\n";
        text_ += fmt::format("  {} -> outside [dir=both, style=dashed];\n", node);
    }

    void add_shared(const std::string& node, const HeldEnd& end) {
        text_ += fmt::format("  {} [shape=ellipse, style=dashed, label={}];\n", node,
                             quoted(describe(*end.object)));
        for (const auto& [process, fds] : end.by)
            text_ += fmt::format("  {} -> {} [dir=none, style=dashed, label={}];\n", process, node,
                                 quoted(numbers(fds)));
    }

    const Checkpoint& checkpoint_;
    std::string text_;
    std::map<Key, std::map<std::int64_t, HeldEnd>> connections_;  // by Object::pipe, then by object
    std::map<Key, HeldEnd> shared_;
};

}  // namespace

std::string as_dot(const Checkpoint& checkpoint) {
    return Graph(checkpoint).text();
}

}  // namespace cairn::inspect
