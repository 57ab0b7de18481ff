"""Catalogs and their tables. In: settings, names of tables, a change with its requirements. Out: a PyIceberg catalog,
loaded tables, and a published change or an error that says whether it landed. The only home of PyIceberg's private
parts; knows no manifest and no plan."""
