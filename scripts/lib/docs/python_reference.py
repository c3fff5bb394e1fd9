"""The Python reference: a page for each package of python/ and for each of its public modules. mkdocstrings fills them from
the sources, which are read and not imported."""

import ast


def make(folder):
    """{page: Markdown} for the packages in a folder; empty if there is no such folder."""
    found = {}
    for init in sorted(folder.glob("*/__init__.py")):
        found.update(package_pages(init, folder))
    return found


def package_pages(init, folder):
    """A page of what the package itself exports, and one for each module of which it exports nothing."""
    name, tree = init.parent.name, ast.parse(init.read_text())
    modules = {dotted(file, folder): file for file in sorted(init.parent.rglob("*.py")) if file != init}
    exported = [one for one in exports(tree) if f"{name}.{one}" not in modules]
    inner = sources_of_names(tree)
    text = f"# {name}\n\n{ast.get_docstring(tree) or ''}\n\n" + "".join(f"::: {name}.{one}\n\n" for one in exported)
    found = {f"python/{name}.md": text}
    for module, file in modules.items():
        is_private = any(part.startswith("_") for part in module.split("."))
        if not is_private and module not in inner and ast.get_docstring(ast.parse(file.read_text())):
            options = "show_root_heading: false, heading_level: 2"
            if file.with_suffix(".pyi").exists():  # its classes are made when it is imported; the stub names them
                options += ", show_if_no_docstring: true"
            found[f"python/{module}.md"] = f"# {module}\n\n::: {module}\n    options: {{{options}}}\n"
    return found


def dotted(file, folder):
    """The name under which a file is imported."""
    parts = file.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def exports(tree):
    """The names of `__all__`, or the public functions and classes that the module defines."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets):
            return [element.value for element in node.value.elts]
    return [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")]


def sources_of_names(tree):
    """The modules M of `from M import NAME`, also below `if TYPE_CHECKING`: their names are used through the package."""
    nodes = [inner for node in tree.body for inner in (node.body if isinstance(node, ast.If) else [node])]
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
