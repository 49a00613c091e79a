// Every struct of an image is described whole by its fields(). The pages on the format are made of that,
// which structs there are, which fields each has and of which type: resources/ROOM/format.md has those of the
// room's schemas, docs/image-format.md has the others. Sentences, as in the third column, are the pages' own.
// CAIRN_WRITE_DOCUMENT=1 in the environment makes anew what is made, and headings that are missing.
#include <gtest/gtest.h>

#include <boost/pfr/tuple_size.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "common/schema/convert.h"
#include "common/schema/fields.h"
#include "resources/schema/fields.h"

namespace cairn {
namespace {

using schema::convert::IsOptional;
using schema::convert::IsVector;
using schema::convert::Listed;

namespace fs = std::filesystem;
const fs::path source_folder = CAIRN_SOURCE_DIR;

struct Row {
    std::vector<std::string> names;
    std::string type, what;
    [[nodiscard]] std::string text() const {
        std::string list;
        for (const std::string& name : names) list += (list.empty() ? "`" : ", `") + name + "`";
        return fmt::format("| {} | {} |{}", list, type, what.empty() ? " |" : " " + what + " |");
    }
};

template <class T>
std::string struct_name() {
    const std::string_view whole = __PRETTY_FUNCTION__;  // "... [with T = cairn::schema::Tcp; ...]"
    const auto begin = whole.find("T = cairn::schema::") + 19;
    return std::string(whole.substr(begin, whole.find_first_of(";]", begin) - begin));
}

// What each struct's table has to say, by the struct's name; structs within structs included.
class Tables {
  public:
    std::map<std::string, std::vector<Row>> all;
    std::map<std::string, std::size_t> forgotten;  // members of structs that fields() doesn't list
    std::map<std::string, std::string> kinds;      // of structs that are one
    std::set<std::string> values;                  // of enumerations, which sentences explain

    template <class T>
    std::string type_of() {
        if constexpr (std::is_same_v<T, bool>)
            return "bool";
        else if constexpr (std::is_integral_v<T>)
            return fmt::format("{}{}", std::is_signed_v<T> ? 'i' : 'u', sizeof(T) * 8);
        else if constexpr (std::is_same_v<T, ProgramId> || std::is_same_v<T, KernelId> ||
                           std::is_same_v<T, ProgramFd>)
            return type_of<std::int32_t>();
        else if constexpr (std::is_same_v<T, ProgramAddress>)
            return type_of<std::uint64_t>();
        else if constexpr (std::is_same_v<T, std::string>)
            return "string";
        else if constexpr (std::is_same_v<T, schema::Bytes>)
            return "bytes";
        else if constexpr (std::is_same_v<T, std::vector<schema::PageRun>> ||
                           std::is_same_v<T, std::vector<schema::ObjectRun>>)
            return "page runs";
        else if constexpr (std::is_same_v<T, std::pair<ProgramAddress, std::uint64_t>>)
            return "[address, length]";
        else if constexpr (std::is_enum_v<T>) {
            for (const auto& [value, name] : schema::EnumNames<T>::table) values.emplace(name);
            return "enum";
        } else if constexpr (std::is_array_v<T>)
            return fmt::format("{} {}", std::extent_v<T>, type_of<std::remove_extent_t<T>>());
        else if constexpr (IsOptional<T>::value)
            return "optional " + type_of<typename T::value_type>();
        else if constexpr (IsVector<T>::value)
            return "list of " + type_of<typename T::value_type>();
        else if constexpr (Listed<T>)
            return add<T>();
        else
            return special(static_cast<T*>(nullptr));
    }

    template <class T>
    std::string add() {
        const std::string name = struct_name<T>();
        if (!all.emplace(name, std::vector<Row>()).second) return name;
        std::vector<Row> rows;
        std::size_t listed = 0;  // as aggregate initialisation counts: each element of an array
        T value{};
        schema::fields(value, [&]<class M>(std::string_view field, M&, auto... range) {
            std::string type = type_of<M>();
            ((type += fmt::format(", {} to {}", range.least, range.most)), ...);
            rows.push_back({{std::string(field)}, std::move(type), ""});
            listed += std::is_array_v<M> ? std::extent_v<M> : 1;
        });
        // Its members are lists, in which each socket option has its place.
        if constexpr (!std::is_same_v<T, schema::SocketOptions>)
            if (listed != boost::pfr::tuple_size_v<T>) forgotten[name] = boost::pfr::tuple_size_v<T> - listed;
        all[name] = std::move(rows);
        return name;
    }

  private:
    template <class... Each>
    std::string special(std::variant<Each...>*) {
        (kinds.emplace(add<Each>(), Each::kind), ...);
        return "What";
    }
    template <class V>
    std::string special(std::map<std::string, V>*) {
        return "map of " + type_of<V>();
    }
};

std::vector<std::string> lines_of(const fs::path& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

Row read_row(const std::string& line) {
    Row row;
    const auto second = line.find('|', 1), third = line.find('|', second + 1);
    std::istringstream names(line.substr(1, second - 1));
    for (std::string name; std::getline(names, name, ',');)
        if (const auto from = name.find('`'); from != std::string::npos)
            row.names.push_back(name.substr(from + 1, name.rfind('`') - from - 1));
    const auto trimmed = [](std::string text) {
        text.erase(0, text.find_first_not_of(' '));
        text.erase(text.find_last_not_of(" |") + 1);
        return text;
    };
    row.type = trimmed(line.substr(second + 1, third - second - 1));
    if (third != std::string::npos) row.what = trimmed(line.substr(third + 1));
    return row;
}

// Rows of the schema: neighbours of one type whose sentence the document shares stay together.
std::vector<Row> merged(const std::vector<Row>& schema, const std::vector<Row>& old) {
    const auto place = [&](const std::string& name) {
        std::size_t at = 0;
        while (at < old.size() && std::ranges::find(old[at].names, name) == old[at].names.end()) ++at;
        return at;
    };
    std::vector<Row> rows;
    std::size_t last = old.size();
    for (const Row& each : schema) {
        const std::size_t at = place(each.names.front());
        if (at < old.size() && at == last && rows.back().type == each.type)
            rows.back().names.push_back(each.names.front());
        else
            rows.push_back({each.names, each.type, at < old.size() ? old[at].what : ""});
        last = at;
    }
    return rows;
}

using Pages = std::map<std::string, fs::path>;  // by struct

// The room's page for structs that a schema of a room declares.
Pages pages_of(const Tables& tables) {
    Pages pages;
    for (const auto& [name, rows] : tables.all) pages[name] = source_folder / "docs/image-format.md";
    for (const auto& file : fs::recursive_directory_iterator(source_folder / "resources")) {
        if (!file.path().filename().string().starts_with("schema") || file.path().extension() != ".h")
            continue;
        for (const std::string& line : lines_of(file.path())) {
            const auto declared =
                line.starts_with("struct ") ? pages.find(line.substr(7, line.find(' ', 7) - 7)) : pages.end();
            if (declared != pages.end()) declared->second = file.path().parent_path() / "format.md";
        }
    }
    return pages;
}

// "list of Credentials": with a link if that struct is on another page.
std::string linked(const std::string& type, const fs::path& page, const Pages& pages) {
    const std::string last = type.substr(type.rfind(' ') + 1);
    const auto other = pages.find(last);
    if (other == pages.end() || other->second == page) return type;
    std::string anchor = last;
    for (char& c : anchor) c = static_cast<char>(std::tolower(c));
    return fmt::format("{}[{}]({}#{})", type.substr(0, type.size() - last.size()), last,
                       other->second.lexically_relative(page.parent_path()).string(), anchor);
}

// A page as it has to be: the rows of each table made anew, and a section for each struct that has none.
std::vector<std::string> made_anew(const fs::path& page, const Tables& tables, const Pages& pages) {
    std::vector<std::string> lines = lines_of(page), result;
    if (lines.empty())
        lines = {"# What [an image](../../docs/image-format.md#contents) says of " +
                 page.parent_path().filename().string()};
    std::set<std::string> missing;
    for (const auto& [name, where] : pages)
        if (where == page) missing.insert(name);
    const auto read_or_make = [&] {
        std::string section;
        for (std::size_t i = 0; i < lines.size();) {
            if (lines[i].starts_with('#')) section = lines[i].substr(lines[i].find(' ') + 1);
            result.push_back(lines[i]);
            if (!lines[i++].starts_with("|---") || missing.erase(section) == 0) continue;
            std::vector<Row> old;
            for (; i < lines.size() && lines[i].starts_with("|"); ++i) old.push_back(read_row(lines[i]));
            for (Row& row : merged(tables.all.at(section), old)) {
                row.type = linked(row.type, page, pages);
                result.push_back(row.text());
            }
        }
    };
    read_or_make();
    lines.clear();
    for (const std::string& name : missing) {
        const auto kind = tables.kinds.find(name);
        std::vector<std::string> head = {"", "## " + name, "| field | type | what |", "|---|---|---|"};
        if (kind != tables.kinds.end())
            head.insert(head.begin() + 2, {"The kind `" + kind->second + "`.", ""});
        lines.insert(kind != tables.kinds.end() ? lines.begin() : lines.end(), head.begin(), head.end());
    }
    read_or_make();
    return result;
}

Tables all_tables() {
    Tables tables;
    tables.add<schema::Process>();
    tables.add<schema::Objects>();
    tables.add<schema::Manifest>();
    return tables;
}

// A member that is added to a struct and forgotten in its fields() would be lost in silence.
class EveryStruct : public testing::TestWithParam<std::string> {};

TEST_P(EveryStruct, ListsAllItsMembers) {
    const Tables tables = all_tables();
    const auto found = tables.forgotten.find(GetParam());
    EXPECT_TRUE(found == tables.forgotten.end()) << "fields() leaves out " << found->second;
}

std::vector<std::string> all_structs() {
    std::vector<std::string> names;
    for (const auto& [name, rows] : all_tables().all) names.push_back(name);
    return names;
}
INSTANTIATE_TEST_SUITE_P(Image, EveryStruct, testing::ValuesIn(all_structs()),
                         [](const auto& each) { return each.param; });

TEST(ImageDocument, PagesAreTheSchemas) {
    const Tables tables = all_tables();
    const Pages pages = pages_of(tables);
    std::set<fs::path> each;
    for (const auto& [name, page] : pages) each.insert(page);
    std::string all;
    for (const fs::path& page : each) {
        const auto wanted = fmt::format("{}\n", fmt::join(made_anew(page, tables, pages), "\n"));
        all += wanted;
        if (std::getenv("CAIRN_WRITE_DOCUMENT") != nullptr)
            std::ofstream(page) << wanted;
        else
            EXPECT_EQ(fmt::format("{}\n", fmt::join(lines_of(page), "\n")), wanted)
                << page << ": CAIRN_WRITE_DOCUMENT=1 makes its headings and tables anew";
    }
    const auto expect = [&](const std::string& words, const std::string& where) {
        EXPECT_NE(all.find(words), std::string::npos) << words << " isn't in " << where;
    };
    for (const std::string& value : tables.values)
        expect("`" + value + "`", "a sentence of any page on the format");
    for (const auto& [name, kind] : tables.kinds) expect("The kind `" + kind + "`", pages.at(name));
}

}  // namespace
}  // namespace cairn
