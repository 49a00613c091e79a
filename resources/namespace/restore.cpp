// Namespaces: those of the group's own are made; descriptors are opened anew, of them or of the namespaces
// that the processes are in now.
#include "resources/namespace/restore.h"

#include <fcntl.h>

#include <algorithm>

#include "common/in_network.h"

namespace cairn::restart {

Result<Fd> open_namespace(Opening& opening, const schema::Object& object, const schema::Namespace& saved) {
    if (saved.own) {
        const Lent owner = saved.own->owner < 0 ? Lent() : TRY(opening.opened.lend(saved.own->owner));
        auto made = TRY(make_namespace(saved, *saved.own, owner.get()));
        if (made.root) opening.own_roots[object.id] = std::move(made.root);
        return std::move(made.space);
    }
    if (saved.of) {
        const Lent own = TRY(opening.opened.lend(*saved.of));
        Fd opened(::open(fd_path(own.get()).c_str(), O_RDONLY | O_CLOEXEC));
        if (!opened) return fail_errno("{}", fd_path(own.get()));
        return opened;
    }
    // The processes are in the tool's namespaces, but for one: they are born into the time namespace that it
    // may have made for its children (restart/clock.cpp).
    const bool of_children = saved.type == schema::NamespaceType::time;
    const std::string path =
        fmt::format("/proc/self/ns/{}{}", schema::name_of(saved.type), of_children ? "_for_children" : "");
    Fd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) return fail_errno("{}", path);
    return opened;
}

Result<> in_own_network(const Opening& opening, std::int64_t network, const std::function<Result<>()>& work) {
    if (network < 0) return work();
    const auto found = std::ranges::find(opening.objects.objects, network, &schema::Object::id);
    const auto* saved = found == opening.objects.objects.end() ? nullptr : found->get<schema::Namespace>();
    const Lent space = TRY(opening.opened.lend(network));
    if (saved == nullptr || !saved->own || !space)
        return fail_code(ExitCode::damaged, "object {} is no network namespace", network);
    const Lent owner = saved->own->owner < 0 ? Lent() : TRY(opening.opened.lend(saved->own->owner));
    return in_network({space.get(), owner.get()}, work);
}

}  // namespace cairn::restart
