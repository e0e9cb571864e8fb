#!/usr/bin/python3
"""A vendor's table of services and callers decides who may call whom.

usage: custom_mesh_spec_test.py --bin DIR
"""

import signal

import example

TABLE = """service,address,port,runs_as,callers
books,10.96.0.7,80,books,web reports
web,10.96.0.8,80,web,
"""


class CustomMeshSpec(example.ExampleCase):
    def setUp(self):
        self.table = self.directory / "services.csv"
        self.table.write_text(TABLE)
        self.start("custom_mesh_spec", "127.0.0.1:0", self.table, self.directory / "state")

    def wait_for_decision(self, source, destination, decision):
        self.wait_for(lambda: self.get(f"/?from={source}&to={destination}"), (200, decision + "\n"))

    def read_again(self, table):
        self.table.write_text(table)
        self.program.send_signal(signal.SIGHUP)

    def test_the_table_decides_and_is_followed(self):
        self.wait_for_decision("web", "books", "allowed")
        self.wait_for_decision("reports", "books", "allowed")
        self.wait_for_decision("books", "web", "denied")
        with self.subTest("another table"):
            self.read_again(TABLE.replace("web reports", "reports").replace("web,\n", "web,books\n"))
            self.wait_for_decision("web", "books", "denied")
            self.wait_for_decision("books", "web", "allowed")
        with self.subTest("a row that means nothing is left out, with its line"):
            self.read_again(TABLE + "films,10.96.0.9,http,films,web\n")
            self.wait_for_decision("web", "books", "allowed")
            self.wait_for(lambda: "must be a whole number from 1 to 65535" in self.log(), True)
            self.assertIn("services.csv:4", self.log())
        with self.subTest("a table that cannot be read changes nothing"):
            self.table.unlink()
            self.program.send_signal(signal.SIGHUP)
            self.wait_for(lambda: "the table keeps its last content" in self.log(), True)
            self.wait_for_decision("web", "books", "allowed")

    def test_a_page_asked_wrongly_says_what_is_missing(self):
        status, text = self.get("/?from=web")
        self.assertEqual(status, 400)
        self.assertIn("to", text)


if __name__ == "__main__":
    example.main()
