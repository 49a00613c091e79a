#include "resources/capture/table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "common/same.h"
#include "resources/capture/take.h"
#include "resources/memory/capture.h"

namespace cairn::capture {
namespace {

void read_owner(const Table& table, const Description& found, schema::Object& object) {
    f_owner_ex owner{};
    if (::fcntl(found.fd(), F_GETOWN_EX, &owner) == 0 && owner.pid != 0) {
        object.owner_type = owner.type;
        object.owner = table.to_program(KernelId(owner.pid));
    }
    object.owner_signal = std::max(::fcntl(found.fd(), F_GETSIG), 0);
    if (S_ISSOCK(found.status.st_mode) || (S_ISFIFO(found.status.st_mode) && !found.link.starts_with('/'))) {
        object.maker = found.status.st_uid;
        object.maker_group = found.status.st_gid;
    }
}

// The object of this description, if a descriptor of it was seen before; else where in `of_inode` it belongs.
struct Place {
    std::int64_t object = -1;
    std::size_t index = 0;
};

// All eventfds are of one inode, and each has a number that it keeps (since Linux 5.2): thousands needn't be
// compared.
Inode place_of(const Description& found) {
    constexpr dev_t of_eventfds = ~dev_t{0};
    if (info_field(found.info, "eventfd-id")) return {of_eventfds, info_number(found.info, "eventfd-id")};
    return inode_of(found.status);
}

// Without kcmp nothing tells an order.
Result<Place> find_one_by_one(const Table& table, const std::vector<std::int64_t>& of_inode,
                              const Description& found) {
    for (std::size_t index = 0; index < of_inode.size(); ++index) {
        const bool same = TRY(same_description(found.fd(), table.descriptions.at(of_inode[index]).fd()));
        if (same) return Place{of_inode[index], index};
    }
    return Place{-1, of_inode.size()};
}

Result<Place> find_place(const Table& table, const std::vector<std::int64_t>& of_inode,
                         const Description& found) {
    if (!kcmp_is_allowed()) return find_one_by_one(table, of_inode, found);
    std::size_t low = 0, high = of_inode.size();
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        const auto order = TRY(compare(found, table.descriptions.at(of_inode[middle])));
        if (order == 0) return Place{of_inode[middle], middle};
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return Place{-1, low};
}

}  // namespace

Mapping mapping_of(const proc::MapLine& line) {
    Mapping mapping;
    mapping.start = line.start;
    mapping.end = line.end;
    mapping.offset = line.offset;
    mapping.device = ::makedev(line.major, line.minor);
    mapping.inode = line.inode;
    mapping.path = line.name;
    mapping.deleted = line.deleted;
    mapping.shared = line.shared;
    return mapping;
}

schema::Object& Table::add(schema::What what) {
    schema::Object& object = objects.emplace_back();
    object.id = static_cast<std::int64_t>(objects.size()) - 1;
    object.what = std::move(what);
    return object;
}

void Table::external(const std::string& what, const std::string& fate) {
    externals.push_back(what);
    note("{}, outside the group: {}", what, fate);
}

Result<std::int64_t> Table::enter(Description found) {
    auto& of_inode = known[place_of(found)];
    const auto place = TRY(find_place(*this, of_inode, found));
    if (place.object >= 0) return place.object;
    schema::Object& object = add(schema::File{});
    object.flags = found.flags;
    read_owner(*this, found, object);
    of_inode.insert(of_inode.begin() + static_cast<std::ptrdiff_t>(place.index), object.id);
    found.duplicates = &duplicates;
    const Description& kept = descriptions.emplace(object.id, std::move(found)).first->second;
    duplicates.add(kept);
    note_leases(*this, kept);
    if (auto done = describe_object(*this, kept, object); !done)
        return std::unexpected(std::move(done.error()).in(kept.who()));
    return object.id;
}

ObjectTable::ObjectTable(ObjectOptions options) : table_(std::make_unique<Table>()) {
    table_->options = std::move(options);
    table_->duplicates.borrow_by(table_->options.borrow);
}
ObjectTable::ObjectTable(ObjectTable&&) noexcept = default;
ObjectTable& ObjectTable::operator=(ObjectTable&&) noexcept = default;
ObjectTable::~ObjectTable() = default;

void ObjectTable::add_member(pid_t id) {
    table_->members.insert(id);
}

Result<std::vector<schema::Descriptor>> ObjectTable::descriptors(const Holder& holder) {
    Table& table = *table_;
    table.members.insert(holder.pid);
    auto numbers = TRY(list_descriptors(holder));
    std::vector<schema::Descriptor> result;
    std::set<std::int64_t> seen;
    Taking taking(table.options.borrow, holder, numbers);
    for (const ProgramFd number : numbers) {
        bool close_on_exec = false;
        auto found = TRY(describe(holder, number, taking.next(), close_on_exec));
        const std::size_t before = table.objects.size();
        const Locks locks = locks_of(found);
        auto id = TRY(table.enter(std::move(found)));
        if (seen.insert(id).second)
            add_locks(table, holder.pid, locks, static_cast<std::size_t>(id) >= before);
        schema::Object& object = table.objects[static_cast<std::size_t>(id)];
        if (number <= ProgramFd(2) && (!object.standard.known() || number < object.standard))
            object.standard = number;
        result.push_back({number, id, close_on_exec});
    }
    note_rank(table, holder, result);
    return result;
}

Result<> ObjectTable::capture_contents(ImageWriter& writer) {
    CHECK_OK(capture_kinds(*table_, writer));
    release();
    return {};
}

void ObjectTable::release() {
    table_->duplicates.forget_all();
    table_->descriptions.clear();
    table_->known.clear();
    table_->of<MemoriesFound>().all.clear();
}

Result<> ObjectTable::finish() {
    return finish_kinds(*table_);
}

const std::vector<std::string>& ObjectTable::notes() const {
    return table_->notes;
}

const std::deque<schema::Object>& ObjectTable::all() const {
    return table_->objects;
}

const schema::Object& ObjectTable::object(std::int64_t id) const {
    return table_->objects.at(static_cast<std::size_t>(id));
}

schema::Objects ObjectTable::take() {
    release();
    schema::Objects all;
    all.cid = table_->options.cid;
    all.np = table_->options.np;
    all.objects.assign(std::make_move_iterator(table_->objects.begin()),
                       std::make_move_iterator(table_->objects.end()));
    table_->objects.clear();
    return all;
}

}  // namespace cairn::capture
