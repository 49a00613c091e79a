// Namespaces: those of the group's own are made; descriptors are opened anew, of them or of the namespaces
// that the processes are in now.
#include "resources/namespace/restore.h"

#include <fcntl.h>

#include <algorithm>

#include "common/in_namespace.h"
#include "resources/namespace/restore_links.h"

namespace cairn::restart {

namespace {

Result<Fd> open_namespace(Opening& opening, const schema::Object& object, const schema::Namespace& saved) {
    if (saved.own) {
        const Lent owner = saved.own->owner < 0 ? Lent() : TRY(opening.opened.lend(saved.own->owner));
        std::vector<Lent> lent;
        std::vector<int> shown;
        for (const auto& object_shown : {saved.own->queues, saved.own->network})
            if (object_shown)
                shown.push_back(lent.emplace_back(TRY(opening.opened.lend(*object_shown))).get());
        auto made = TRY(make_namespace(saved, *saved.own, owner.get(), std::move(shown)));
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

}  // namespace

Result<> open_namespaces(Opening& opening) {
    const auto open_one = [&](const schema::Object& object, const schema::Namespace& saved) -> Result<> {
        const Fd fd = TRY(open_namespace(opening, object, saved));
        if (::fcntl(fd.get(), F_SETFL, object.flags & ~O_ASYNC) != 0) return fail_errno("F_SETFL");
        return opening.keep_copy(object, fd.get());
    };
    for (const schema::Object& object : opening.objects.objects)
        if (const auto* saved = object.get<schema::Namespace>())
            CHECK_OK(with_name(object, open_one(object, *saved)));
    return make_links(opening);
}

Result<> in_own_space(const Opening& opening, std::int64_t space, const std::function<Result<>()>& work) {
    const auto found = std::ranges::find(opening.objects.objects, space, &schema::Object::id);
    return in_own_space(
        found == opening.objects.objects.end() ? nullptr : &*found, space,
        [&](std::int64_t object) { return opening.opened.lend(object); }, work);
}

Result<> in_own_space(const schema::Object* object, std::int64_t space,
                      const std::function<Result<Lent>(std::int64_t object)>& lend,
                      const std::function<Result<>()>& work) {
    if (space < 0) return work();
    const auto* saved = object == nullptr ? nullptr : object->get<schema::Namespace>();
    const Lent opened = TRY(lend(space));
    if (saved == nullptr || !saved->own || !opened)
        return fail_code(ExitCode::damaged, "object {} is no namespace of the group's own", space);
    const Lent owner = saved->own->owner < 0 ? Lent() : TRY(lend(saved->own->owner));
    return in_namespace({opened.get(), owner.get(), saved->type == schema::NamespaceType::ipc}, work);
}

}  // namespace cairn::restart
